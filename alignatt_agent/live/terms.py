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
from itertools import dropwhile
from pathlib import Path

from alignatt_agent.config.command_line import page
from alignatt_agent.config.errors import ConfigError
from alignatt_agent.config.languages import LanguageError, language
from alignatt_agent.config.resources import read_text
from alignatt_agent.config.terms import read_terms, term_line

_ALPHABETS = 0x530
"""End of the Latin, Greek and Cyrillic characters in Unicode, whose letters have two cases."""

_CAPITALS = [char for char in map(chr, range(_ALPHABETS)) if char.isupper()]

_CAPITAL = "[" + "".join(_CAPITALS) + "]"
"""Pattern of a capital letter, for which ``re`` has no class."""

_NAME = rf"{_CAPITAL}[\w+-]*[\w+]"
"""Pattern of a word that begins with a capital letter."""

_MIXED = rf"\b[\w-]+{_CAPITAL}[\w+-]*"
"""Pattern of a word with a capital letter inside, such as ``iPhone``."""

_INSIDE = r"(?:(?<=[\w,;)] )|(?<=[(\"]))"
"""Pattern of a position inside a sentence, where a capital letter marks a name."""

_RUN = re.compile(rf"(?:{_INSIDE}{_NAME}|{_MIXED})(?: (?:{_NAME}|{_MIXED}))*")
"""Successive words with a capital letter; at the start of a sentence, the first letter does not
count."""

_BIBLIOGRAPHY = re.compile(r"(?im)^\W*\d*\W*(?:references|bibliography)\s*$")
"""Heading of a bibliography, with or without a number."""


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
    arguments = build_parser().parse_args(argv)
    text = _read(arguments.file)
    lines = glossary_lines(arguments.file, text)
    if lines is None:
        lines = propose(text, arguments.least)[: arguments.most]
        if not lines:
            raise ConfigError(
                f"{arguments.file}: no name or term occurs at least {arguments.least} times with a "
                f"capital letter inside a sentence; lower --least, or write the list by hand"
            )
    print("\n".join(lines))
    return 0


def propose(text: str, least: int = 2) -> list[str]:
    """Return names and terms that occur at least ``least`` times, the most frequent first.

    The text after the heading of a bibliography is ignored.
    """
    text, *_ = _BIBLIOGRAPHY.split(text)
    # Join the halves of a hyphenated word.
    text = re.sub(r"(?<=[a-z])-\n(?=[a-z])", "", text)
    # A heading ends without a period, but the next paragraph begins a sentence.
    text = re.sub(r"\n\s*\n", ". ", text)
    text = " ".join(text.split())
    words = Counter(re.findall(r"\w+", text))
    terms = []
    for term, count in Counter(_RUN.findall(text)).most_common():
        # A word that is more frequent in lower case is no name, e.g. in a title.
        if count >= least and count > words[term.lower()]:
            terms.append(term)
    return terms


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
        ConfigError: the first row names a language twice or only one language, no row has a term,
            or a cell contains a control character.
    """
    delimiter = _delimiter(path, text)
    if delimiter is None:
        return None
    header, *rows = _rows(path, text, delimiter) or [[]]
    columns = _language_columns(path, header, rows)
    if not columns:
        heads = ", ".join(header)[:60]
        _note(
            f"{path}: the first row ({heads}) names no language, so the file is read as text; a "
            "glossary names languages by codes such as de, or in English"
        )
        return None
    (term_place, _), *target_columns = columns.items()
    lines: list[str] = []
    skipped = 0
    for row in rows:
        term = _cell(row, term_place)
        translations: dict[str, str] = {}
        for place, code in target_columns:
            translation = _cell(row, place)
            if translation:
                translations[code] = translation
        if term:
            lines.append(term_line(term, translations))
        elif translations:
            skipped += 1
    if skipped:
        _note(f"{path}: {skipped} row(s) without a term in the first language are skipped")
    if not lines:
        raise ConfigError(f"{path}: the glossary has no row with a term in the first language")
    # A cell with a control character is refused here rather than when the list is used.
    read_terms("\n".join(lines))
    return lines


def _delimiter(path: Path, text: str) -> str | None:
    """Return the delimiter of a table, or ``None`` for running text."""
    first_line, _, _ = text.lstrip("\n").partition("\n")
    # Excel reads and writes a first line that states the delimiter.
    if first_line.startswith("sep=") and len(first_line) == len("sep=;"):
        return first_line[-1]
    if path.suffix.lower() == ".tsv" or "\t" in first_line:
        return "\t"
    if path.suffix.lower() != ".csv":
        return None
    # Excel writes semicolons in countries with a decimal comma.
    if ";" in first_line:
        return ";"
    return ","


def _rows(path: Path, text: str, delimiter: str) -> list[list[str]]:
    """Return the rows of a table by the rules of CSV; if they do not apply, quotes are text.

    Empty rows before the header and Excel's line ``sep=;`` are omitted.
    """
    # Cells may contain other line separators, e.g. Excel's vertical tab.
    table = text.strip("\n").removeprefix(f"sep={delimiter}\n")
    lines = [f"{line}\n" for line in table.split("\n")]
    try:
        rows = list(csv.reader(lines, delimiter=delimiter, strict=True))
    except csv.Error as error:
        _note(f"{path}: quotation marks are read as text, because they are not CSV ({error})")
        rows = list(csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE))
    return list(dropwhile(_is_empty, rows))


def _is_empty(row: Sequence[str]) -> bool:
    """Return whether no cell of a row contains text."""
    return not any(cell.strip() for cell in row)


def _language_columns(
    path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]
) -> dict[int, str]:
    """Return the code of each column with a language; note the columns that are ignored."""
    columns: dict[int, str] = {}
    ignored: list[str] = []
    for place, head in enumerate(header):
        name = head.strip()
        code = _code(head)
        # A head of row numbers may be a code: ID (Indonesian), No (Norwegian).
        if code is None or _is_numbered(rows, place):
            if name:
                ignored.append(name)
        elif code in columns.values():
            raise ConfigError(
                f"{path}: {name!r} is the second column of the language {code}; keep one"
            )
        else:
            columns[place] = code
    if not columns or not ignored:
        return columns
    if len(columns) == 1:
        raise ConfigError(
            f"{path}: only one column names a language; ignored would be "
            f"{', '.join(ignored)}: name languages by codes such as de, or remove the columns"
        )
    _note(f"{path}: columns that name no language are ignored: {', '.join(ignored)}")
    return columns


def _is_numbered(rows: Sequence[Sequence[str]], place: int) -> bool:
    """Return whether all non-empty cells of a column, and at least one, are numbers."""
    numbers = 0
    for row in rows:
        cell = _cell(row, place)
        if cell and not cell.isdecimal():
            return False
        if cell:
            numbers += 1
    return numbers > 0


def _code(name: str) -> str | None:
    """Return the code of the language that a column's head names, or ``None``."""
    try:
        return language(name).code
    except LanguageError:
        return None


def _cell(row: Sequence[str], place: int) -> str:
    """Return a cell with single spaces; a short row ends with empty cells."""
    if place >= len(row):
        return ""
    return " ".join(row[place].split())


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)
