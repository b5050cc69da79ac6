"""Make a checkout ready for the package index: `python -m lab.release URL TAG`.

Links of README.md become addresses in the repository at URL, and pyproject.toml gets them as
``project.urls``: both are shown where no files of the repository are.
"""

import argparse
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = argparse.ArgumentParser("python -m lab.release", description=__doc__)
    parser.add_argument(
        "url", help="of the repository, e.g. https://github.com/OWNER/alignatt_agent"
    )
    parser.add_argument("tag", help="of the release, e.g. v0.1.0")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Rewrite both files; returns the exit status."""
    given = build_parser().parse_args(argv)
    for name, change in (("README.md", absolute), ("pyproject.toml", with_urls)):
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        path.write_text(change(text, given.url.rstrip("/"), given.tag), encoding="utf-8")
    return 0


def absolute(readme: str, url: str, tag: str) -> str:
    """Return a README whose links and images are addresses."""

    def replace(match: re.Match[str]) -> str:
        kind = "raw" if match[1].startswith("!") else "blob"
        return f"{match[1]}({url}/{kind}/{tag}/{match[2]})"

    return re.sub(r"(!?\[[^\]]*\])\((?!https?:|#)([^)\s]+)\)", replace, readme)


def with_urls(pyproject: str, url: str, tag: str) -> str:
    """Return a pyproject.toml with the addresses of the project."""
    pages = {
        "Repository": url,
        "Documentation": f"{url}/blob/{tag}/docs/tutorial.md",
        "Changelog": f"{url}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{url}/issues",
    }
    table = "".join(f'{name} = "{address}"\n' for name, address in pages.items())
    return pyproject.replace("[project.scripts]", f"[project.urls]\n{table}\n[project.scripts]", 1)


if __name__ == "__main__":
    raise SystemExit(main())
