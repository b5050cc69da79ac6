"""Write the sources of the documentation site: `python -m lab.docs_site FOLDER`, see `make docs`.

The sources are the pages of ``docs/``, the README, the files that they link to, and a page of the
doctor's checks. The command needs only the standard library.
"""

import argparse
import ast
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

CHECKS = ("machine_checks", "config_checks", "engine_checks", "parity_check", "prove", "speakers")


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
    write(folder / "troubleshooting.md", troubleshooting())
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
            name = inside if inside.suffix != ".md" else inside.with_suffix(".txt")
            shutil.copyfile(target, folder / name)
            inside = name
        return f"{text}({Path(os.path.relpath(inside, page.parent)).as_posix()}{anchor})"

    pattern = r"(!?\[[^\]]*\])\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)"
    return re.sub(pattern, replace, path.read_text(encoding="utf-8"))


FORMS = {"Check": (0, 2, 3), "Check.judged": (0, 2, 3), "Check.failed": (0, 1, 2)}
"""Positions of name, finding and fix in each form of a check."""


def troubleshooting() -> str:
    """Return the page of all checks that can fail or warn, with their fixes."""
    lines = [
        "# Troubleshooting",
        "",
        "`alignatt doctor --config NAME` runs these checks and prints a fix for each failed check. "
        "This page is generated from its source. … stands for values that depend on the machine.",
        "",
        "| Check | Found | Fix |",
        "|---|---|---|",
    ]
    for module in CHECKS:
        source = ROOT / "alignatt_agent" / "doctor" / f"{module}.py"
        rows = dict.fromkeys(checks(ast.parse(source.read_text(encoding="utf-8"))))
        lines += [
            f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows
        ]
    return "\n".join([*lines, ""])


def checks(tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    """Yield name, finding and fix of every check in a module that can fail or warn."""
    for function in (item for item in ast.walk(tree) if isinstance(item, ast.FunctionDef)):
        known: dict[str, list[tuple[int, ast.expr]]] = defaultdict(list)
        for item in ast.walk(function):
            if isinstance(item, ast.Assign):
                (target,), value = item.targets, item.value
                pairs = [(target, value)]
                if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                    pairs = list(zip(target.elts, value.elts, strict=True))
                for name, value in pairs:
                    if isinstance(name, ast.Name):
                        known[name.id].append((item.lineno, value))
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and (places := FORMS.get(ast.unparse(call.func))):
                cells = [said(argument, known, call.lineno) for argument in call.args]
                name, found, fix = (cells[n] if n < len(cells) else "" for n in places)
                if fix not in ("", "…") and "ok" not in cells[1:2]:
                    yield name, found, fix


def said(value: ast.expr, known: dict[str, list[tuple[int, ast.expr]]], line: int) -> str:
    """Return the text of an expression; … replaces parts that depend on the machine."""
    if isinstance(value, ast.Constant):
        return str(value.value)
    if isinstance(value, ast.JoinedStr):
        parts = (x.value if isinstance(x, ast.FormattedValue) else x for x in value.values)
        return re.sub("…+", "…", "".join(said(part, {}, line) for part in parts))
    if isinstance(value, ast.Name):
        before = [(at, text) for at, text in known.get(value.id, []) if at <= line]
        return said(before[-1][1], {}, line) if before else "…"
    if isinstance(value, ast.IfExp):
        return said(value.body, known, line)
    if isinstance(value, ast.BinOp):
        return said(value.left, known, line) + said(value.right, known, line)
    return "…"


if __name__ == "__main__":
    raise SystemExit(main())
