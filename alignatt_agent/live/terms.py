"""Propose names and terms for speech.context from a paper, slides, or notes on the talk.

The command needs no model: it counts capitalized words inside sentences and prints a list. Check
the list before you use it.

Examples:
    alignatt terms paper.pdf
    alignatt terms notes.txt --least 1 --most 30
    alignatt translate talk.wav --target de --context terms.txt

A line may prescribe a translation for all targets ("term = translation") or for some targets
("term = de: Begriff | it: termine"). A TSV file whose first line consists of language codes is a
glossary. Each other row becomes such a line, and the first column contains the spoken language.
To read a PDF, install alignatt_agent[pdf].
"""

import argparse
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from alignatt_agent.config.command_line import page
from alignatt_agent.config.errors import ConfigError
from alignatt_agent.config.languages import LANGUAGES
from alignatt_agent.config.resources import read_text

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
    codes, *rows = [line.split("\t") for line in text.strip("\n").split("\n")]
    if given.file.suffix == ".tsv" and {*codes} <= {item.code for item in LANGUAGES}:
        found = [_line(codes, row) for row in rows]
    else:
        found = propose(text, given.least)[: given.most]
    print("\n".join(found))
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


def _line(codes: Sequence[str], row: Sequence[str]) -> str:
    """Return the line for a row of a glossary with one column per language."""
    term, *cells = (cell.strip() for cell in row)
    given = [f"{code}: {cell}" for code, cell in zip(codes[1:], cells, strict=False) if cell]
    return f"{term} = {' | '.join(given)}" if given else term
