"""Write the sources of the documentation site: `python -m lab.docs_site FOLDER`, see `make docs`.

The sources are the pages of ``docs/``, the README and the files that they link to. The command
needs only the standard library.
"""

import argparse
import os
import re
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main(argv: list[str] | None = None) -> int:
    """Write the sources; return the exit status."""
    parser = argparse.ArgumentParser("python -m lab.docs_site", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder for the sources; its files are deleted")
    folder = parser.parse_args(argv).folder
    shutil.rmtree(folder, ignore_errors=True)
    pages = {
        ROOT / "README.md": Path("index.md"),
        ROOT / "CONTRIBUTING.md": Path("contributing.md"),
    }
    pages |= {path: path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    for path, page in pages.items():
        write(folder / page, linked(path, page, pages, folder))
    shutil.copy(ROOT / "docs" / "colors.css", folder)
    return 0


def write(path: Path, text: str) -> None:
    """Write a page and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def linked(path: Path, page: Path, pages: dict[Path, Path], folder: Path) -> str:
    """Return a page whose links lead to pages of the site, or to copies of files below ``files/``.

    A link to a folder becomes its text.
    """

    def replace(match: re.Match[str]) -> str:
        text, link, anchor = match.groups("")
        target = (path.parent / link).resolve()
        if target.is_dir():
            return text.strip("![]")
        inside = pages.get(target)
        if inside is None:
            inside = Path("files") / target.relative_to(ROOT)
            (folder / inside).parent.mkdir(parents=True, exist_ok=True)
            # The generator of the site would make a page of a Markdown file.
            if inside.suffix == ".md":
                inside = inside.with_suffix(".txt")
            shutil.copyfile(target, folder / inside)
        return f"{text}({Path(os.path.relpath(inside, page.parent)).as_posix()}{anchor})"

    pattern = r"(!?\[[^\]]*\])\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)"
    return re.sub(pattern, replace, path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    raise SystemExit(main())
