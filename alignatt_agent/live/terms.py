"""Propose names and terms for speech.context from a paper, slides, or notes on the talk.

The command needs no model: it counts capitalized words inside sentences and prints a list. Check
the list before you use it.

Examples:
    alignatt terms paper.pdf
    alignatt terms notes.txt --least 1 --most 30
    alignatt translate talk.wav --target de --context terms.txt

A line may prescribe a translation for all targets ("term = translation") or for some targets
("term = de: Begriff | it: termine"). A table (TSV or CSV) whose first row names languages is a
glossary. Each other row becomes such a line, and the first language is the spoken language. The
first row contains codes or English names (de, DE, de-DE, German). Cells may be quoted as by Excel.
To read a PDF, install alignatt_agent[pdf].
"""

import argparse
import csv
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from alignatt_agent.config.command_line import page
from alignatt_agent.config.errors import ConfigError
from alignatt_agent.config.languages import LanguageError, language
from alignatt_agent.config.resources import read_text
from alignatt_agent.config.terms import term_line

_CAPITAL = "[" + "".join(char for char in map(chr, range(0x530)) if char.isupper()) + "]"
_NAME, _MIXED = rf"{_CAPITAL}[\w+-]*[\w+]", rf"\b[\w-]+{_CAPITAL}[\w+-]*"
_RUN = re.compile(rf"(?:(?:(?<=[\w,;)] )|(?<=[(\"])){_NAME}|{_MIXED})(?: (?:{_NAME}|{_MIXED}))*")
"""Words with a capital letter; at the start of a sentence, the first letter does not count."""


def build_parser() -> argparse.ArgumentParser:
    """Build the command-line parser."""
    parser = argparse.ArgumentParser("alignatt terms", **page(__doc__))
    add = parser.add_argument
    add("file", type=Path, metavar="FILE", help="PDF, UTF-8 text, or TSV")
    add("--least", type=int, default=2, metavar="N", help="minimum count; default %(default)s")
    text = "maximum number of terms; default %(default)s"
    add("--most", type=int, default=100, metavar="N", help=text)
    return parser


def main(argv: Sequence[str]) -> int:
    """Run ``alignatt terms``."""
    given = build_parser().parse_args(argv)
    text = _read(given.file)
    lines = glossary_lines(given.file, text)
    if lines is None:
        lines = propose(text, given.least)[: given.most]
        if not lines:
            raise ConfigError(
                f"{given.file}: no name or term occurs at least {given.least} times with a capital "
                f"letter inside a sentence; lower --least, or write the list by hand"
            )
    print("\n".join(lines))
    return 0


def propose(text: str, least: int = 2) -> list[str]:
    """Return names and terms that occur at least ``least`` times, the most frequent first.

    The text after the heading of a bibliography is ignored.
    """
    text, *_ = re.split(r"(?im)^\W*\d*\W*(?:references|bibliography)\s*$", text)
    text = re.sub(r"(?<=[a-z])-\n(?=[a-z])", "", text)
    text = " ".join(re.sub(r"\n\s*\n", ". ", text).split())
    small = Counter(re.findall(r"\w+", text))
    runs = Counter(_RUN.findall(text)).most_common()
    return [term for term, n in runs if n >= least and n > small[term.lower()]]


def _read(path: Path) -> str:
    text = _pdf(path) if path.suffix.lower() == ".pdf" else read_text(path)
    if not text.strip():
        raise ConfigError(f"{path} contains no text: run text recognition on scanned pages first")
    return text


def _pdf(path: Path) -> str:
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError:
        raise ConfigError("reading a PDF needs pypdf: pip install 'alignatt_agent[pdf]'") from None
    try:
        return "\n".join(sheet.extract_text() for sheet in PdfReader(path).pages)
    except (OSError, PyPdfError) as error:
        raise ConfigError(f"{path} is not a PDF that pypdf can read: {error}") from None


def glossary_lines(path: Path, text: str) -> list[str] | None:
    """Return the lines of ``speech.context`` for a glossary; ``None`` if ``text`` is no glossary.

    Raises:
        ConfigError: the first row names a language twice or only one language, or no row has a
            term.
    """
    delimiter = _delimiter(path, text)
    if delimiter is None:
        return None
    header, *rows = _rows(path, text, delimiter)
    columns = _language_columns(path, header, rows)
    if not columns:
        _note(f"{path}: the first row names no language, so the file is read as text")
        return None
    lines, skipped = [], 0
    for row in rows:
        cells = dict(zip(columns.values(), (_cell(row, place) for place in columns), strict=True))
        term = cells.pop(next(iter(columns.values())))
        if term:
            translations = {code: cell for code, cell in cells.items() if cell}
            lines.append(term_line(term, translations))
        elif any(cells.values()):
            skipped += 1
    if skipped:
        _note(f"{path}: {skipped} row(s) without a term in the first language are skipped")
    if not lines:
        raise ConfigError(f"{path}: the glossary has no row with a term in the first language")
    return lines


def _delimiter(path: Path, text: str) -> str | None:
    """Return the delimiter of a table, or ``None`` for running text."""
    first = text.partition("\n")[0]
    if path.suffix.lower() == ".tsv" or "\t" in first:
        return "\t"
    if path.suffix.lower() == ".csv":
        return ";" if ";" in first else ","
    return None


def _rows(path: Path, text: str, delimiter: str) -> list[list[str]]:
    """Return the rows of a table by the rules of CSV; if they do not apply, quotes are text."""
    lines = text.splitlines(keepends=True)
    try:
        return list(csv.reader(lines, delimiter=delimiter, strict=True))
    except csv.Error as error:
        _note(f"{path}: quotation marks are read as text, because they are not CSV ({error})")
        return list(csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE))


def _language_columns(
    path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]
) -> dict[int, str]:
    """Return the code of each column with a language; note the columns that are ignored."""
    columns: dict[int, str] = {}
    ignored: list[str] = []
    for place, name in enumerate(header):
        cells = [cell for row in rows if (cell := _cell(row, place))]
        code = _code(name)
        if code is None or (cells and all(cell.isdecimal() for cell in cells)):  # ID, No
            if name.strip():
                ignored.append(name.strip())
        elif code in columns.values():
            raise ConfigError(
                f"{path}: {name.strip()!r} is the second column of the language {code}; keep one"
            )
        else:
            columns[place] = code
    if columns and ignored:
        if len(columns) == 1:
            raise ConfigError(
                f"{path}: only one column names a language; ignored would be "
                f"{', '.join(ignored)}: name languages by codes such as de, or remove the columns"
            )
        _note(f"{path}: columns that name no language are ignored: {', '.join(ignored)}")
    return columns


def _code(name: str) -> str | None:
    """Return the code of the language that a column's head names, or ``None``."""
    try:
        return language(name).code
    except LanguageError:
        return None


def _cell(row: Sequence[str], place: int) -> str:
    return " ".join(row[place].split()) if place < len(row) else ""


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)
