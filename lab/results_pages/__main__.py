"""Generate docs/results/*.md and the table of README.md from the JSON files in lab/results.

The table of policies in docs/models.md is generated from the classes of the policies.

Examples:
  generate the pages:
    python -m lab.results_pages
  import new figures of the engine, then generate the pages:
    python -m lab.results_pages --add outputs/bench/engine.json engine
  import new figures of the embedded dev set, then generate the pages:
    python -m lab.results_pages --devset outputs
  print the page of real models with the figures in DIR/lab/results and DIR/head_sets:
    python -m lab.results_pages --real DIR

The runs of the dev set are dev-low, dev-high, micro-follows-dev-low and micro-follows-dev-high from
`make`, and offline and micro-follows-offline from `alignatt offline`.
"""

import argparse
import datetime
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from tabulate import tabulate

from lab import commands
from lab.results_pages import rows
from lab.results_pages.cells import Cells

ROOT = Path(__file__).resolve().parents[2]
RESULTS, DOCS, README = ROOT / "lab/results", ROOT / "docs/results", ROOT / "README.md"
MODELS, EVIDENCE = ROOT / "docs/models.md", ROOT / "docs/evidence.md"
RUNS = ("dev-low", "dev-high", "micro-follows-dev-low", "micro-follows-dev-high")
OFFLINE = ("offline", "micro-follows-offline")

MARKED = {
    README: ("real", "embedded"),
    MODELS: ("policies",),
    EVIDENCE: ("real-policies", "real-bounds"),
}
"""Pages of which only the marked tables are generated."""

_STREAMED = (
    *("bleu", "chrf", "longyaal_cu_ms", "longyaal_ca_ms", "rtf", "stream_laal_cu_ms"),
    *("paced", "transcript"),
)
_OFFLINE = ("bleu", "chrf", "wer", "wer_interval")
"""Scores in the rows of streamed and off-line runs."""

Table = dict[str, Any]
"""A table of ``pages.yaml``."""

PAGES = yaml.safe_load(Path(__file__).with_name("pages.yaml").read_text(encoding="utf-8"))


def pages() -> dict[Path, str]:
    """Return every generated file with its content."""
    contents = {DOCS / f"{name}.md": page(shown) for name, shown in PAGES["pages"].items()}
    for path, names in MARKED.items():
        text = path.read_text(encoding="utf-8")
        for name in names:
            text = _with_table(text, name, path)
        contents[path] = text
    return contents


def _with_table(text: str, name: str, path: Path) -> str:
    """Replace the part of a page between the marks of a table."""
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    before, mark_begin, rest = text.partition(begin)
    _, mark_end, after = rest.partition(end)
    if not mark_begin or not mark_end:
        raise SystemExit(f"{path} lacks the lines <!-- {name} --> and <!-- /{name} -->")
    files = [_read(file) for file in PAGES[name]["files"]]
    table = markdown(PAGES[name], *files)
    return f"{before}{begin}\n{table}\n\n{end}{after}"


def page(shown: Table, root: Path = ROOT) -> str:
    """Return a page; for another root, files and tables may be missing."""
    parts = [
        f"# {shown['title']}",
        "`python -m lab.results_pages` generates this page from the listed JSON files.",
    ]
    for table in shown["tables"]:
        names = table["files"]
        if root != ROOT:
            # Figures of another machine may lack some measurements.
            names = [name for name in names if _path(name, root).exists()]
        if names:
            parts += _section(table, names, root)
    return "\n\n".join(parts) + "\n"


def _section(table: Table, names: Sequence[str], root: Path) -> list[str]:
    """Return heading, note, table and origin of the figures."""
    parts = [f"## {table['title']}"]
    if "note" in table:
        parts.append(table["note"])
    files = [_read(name, root) for name in names]
    parts.append(markdown(table, *files))
    origins = [_origin(name, root) for name in names]
    if "command" in table:
        origins += ["", "```sh", table["command"], "```"]
    parts.append("\n".join(origins))
    return parts


def markdown(table: Table, *files: rows.Row) -> str:
    """Format a table from the content of its files."""
    select = getattr(rows, table.get("rows", "listed"))
    formatter = Cells()
    columns: dict[str, list[str]] = {title: [] for title in table["columns"]}
    for row in select(*files):
        for title, template in table["columns"].items():
            columns[title].append(formatter.vformat(template, (), row))
    sides = [_side(cells) for cells in columns.values()]
    return str(tabulate(columns, "keys", "pipe", colalign=sides, disable_numparse=True))


def _side(cells: Sequence[str]) -> str:
    """Align a column of figures to the right, and one with a word or code to the left."""
    for cell in cells:
        if cell[:1].isalpha() or cell.startswith("`"):
            return "left"
    return "right"


def _origin(name: str, root: Path) -> str:
    """Return a list item: a link to a JSON file, its commit, machine, dev set and versions."""
    data = _read(name, root)
    path = _path(name, root)
    facts = [f"[{path.name}](../../{path.relative_to(root)})"]
    for key, value in data.get("recorded", {}).items():
        facts.append(f"{key} {value}")
    # Files of scores keep the description of the machine in their signature.
    about = data.get("signature", data)
    # Few files name all of these.
    facts += [about[key] for key in ("device", "devset") if isinstance(about.get(key), str)]
    versions = about.get("versions", {})
    facts += [
        f"{package} {versions[package]}" for package in ("vllm", "torch") if package in versions
    ]
    return "* " + ", ".join(facts)


def _path(name: str, root: Path) -> Path:
    return root / name if "/" in name else root / "lab/results" / name


def _read(name: str, root: Path = ROOT) -> dict[str, Any]:
    path = _path(name, root)
    return {"file": path.stem, **json.loads(path.read_text(encoding="utf-8"))}


def _recorded() -> dict[str, str]:
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return {"commit": commit, "date": datetime.date.today().isoformat()}


def add(path: Path, name: str) -> None:
    """Copy a JSON file to lab/results/NAME.json, with commit and date."""
    data = json.loads(path.read_text(encoding="utf-8"))
    content = data if isinstance(data, dict) else {"rows": data}
    commands.write_json(RESULTS / f"{name}.json", {**content, "recorded": _recorded()})


def add_devset(outputs: Path) -> None:
    """Collect the scores of the embedded dev set from the folders of its runs."""
    streamed = _scores(outputs, RUNS, "scores.json", _STREAMED)
    if not streamed:
        raise SystemExit(f"{outputs} has no scores of {', '.join(RUNS)}: run make dev-low first")
    offline = _scores(outputs, OFFLINE, "offline.json", _OFFLINE)
    signature = streamed[-1][0]
    content = {
        "recorded": _recorded(),
        "versions": signature["versions"],
        "device": signature["device"],
        "audio": signature["audio"],
        "rows": [row for _, row in streamed],
        "offline": [row for _, row in offline],
    }
    commands.write_json(RESULTS / "devset.json", content)


def _scores(
    outputs: Path, runs: Sequence[str], file_name: str, keys: Sequence[str]
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return signature and row of every target of the runs."""
    signed_rows = []
    for run in runs:
        for path in sorted((outputs / run).glob(f"*/{file_name}")):
            scores = json.loads(path.read_text(encoding="utf-8"))
            signature = scores["signature"]
            row = {"run": run, "config": signature["config"], "target": path.parent.name}
            for key in keys:
                row[key] = scores.get(key)
            signed_rows.append((signature, row))
    return signed_rows


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = commands.parser("lab.results_pages", __doc__)
    add = parser.add_argument
    text = "import new figures as lab/results/NAME.json, with today's commit and date"
    add("--add", nargs=2, action="append", default=[], metavar=("FILE", "NAME"), help=text)
    add("--devset", type=Path, metavar="OUTPUTS", help="import the runs of the embedded dev set")
    add("--real", type=Path, metavar="DIR", help="only print the page of real models; see above")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line."""
    arguments = build_parser().parse_args(argv)
    if arguments.real:
        print(page(PAGES["pages"]["real"], arguments.real), end="")
        return 0
    for path, name in arguments.add:
        add(Path(path), name)
    if arguments.devset:
        add_devset(arguments.devset)
    DOCS.mkdir(parents=True, exist_ok=True)
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
