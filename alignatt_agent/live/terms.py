"""Propose names and terms for speech.context from a paper, slides or notes of the talk.

Words with capitals inside sentences are counted; there is no model. Read the list, which goes to
the terminal, before use.

Examples:
    alignatt terms paper.pdf
    alignatt terms notes.txt --least 1 --most 30
    alignatt translate talk.wav --target de --context terms.txt

A line may name a translation, for all targets or for some: "term = translation",
"term = de: Begriff | it: termine". A TSV whose first line has language codes is a glossary: every
row becomes such a line, the first column is the spoken language. A PDF needs the extra pdf.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from alignatt_agent.config.command_line import page
from alignatt_agent.config.errors import ConfigError
from alignatt_agent.config.languages import LANGUAGES

_SENTENCE_END = re.compile(r"[.!?:]\s+|\n\s*\n")
_BIBLIOGRAPHY = re.compile(r"(?im)^\W*\d*\W*(references|bibliography)\s*$")


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = argparse.ArgumentParser("alignatt terms", **page(__doc__))
    add = parser.add_argument
    add("file", type=Path, metavar="FILE", help="a .pdf, or text in UTF-8, or a .tsv")
    add("--least", type=int, default=2, metavar="N", help="occurrences; default %(default)s")
    add("--most", type=int, default=100, metavar="N", help="lines; default %(default)s")
    return parser


def main(argv: Sequence[str]) -> int:
    """Run ``alignatt terms``."""
    given = build_parser().parse_args(argv)
    text = read_text(given.file)
    header, *rows = [line.split("\t") for line in text.splitlines()] or [[]]
    if given.file.suffix == ".tsv" and {*header} <= {item.code for item in LANGUAGES}:
        found = list(_glossary(header, rows))
    else:
        found = propose(text, given.least)[: given.most]
    print("\n".join(found))
    return 0


def propose(text: str, least: int = 2) -> list[str]:
    """Return names and terms that occur ``least`` times, the most frequent first.

    A term is a run of words with capitals; at the beginning of a sentence one capital proves
    nothing. What follows the heading of a bibliography is not read.
    """
    text = re.sub(r"(?<=[a-z])-\n(?=[a-z])", "", _BIBLIOGRAPHY.split(text)[0])
    runs, small = Counter[str](), Counter[str]()
    for sentence in _SENTENCE_END.split(text):
        run: list[str] = []
        for number, token in enumerate(sentence.split()):
            word = re.sub(r"^\W+|\W+$|['\u2019]s\W*$", "", token)
            named = word[:1].isupper() and (number > 0 or not word[1:].islower()) and len(word) > 1
            if not named and not re.search("[A-Z]", word[1:]):
                runs[" ".join(run)] += 1
                run = []
                small[word] += word.islower()
                continue
            run.append(word)
            if not token.endswith(word):  # punctuation ends a name
                runs[" ".join(run)] += 1
                run = []
        runs[" ".join(run)] += 1
    del runs[""]
    return [term for term, n in runs.most_common() if n >= least and n > small[term.casefold()]]


def read_text(path: Path) -> str:
    """Read the text of a file.

    Raises:
        ConfigError: the file cannot be read, or holds no text.
    """
    try:
        text = _pdf(path) if path.suffix.lower() == ".pdf" else path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as text: {error}") from None
    if not text.strip():
        raise ConfigError(f"{path} holds no text; scanned pages need text recognition first")
    return text


def _pdf(path: Path) -> str:
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError:
        raise ConfigError("a PDF is read by pypdf: pip install 'alignatt_agent[pdf]'") from None
    try:
        return "\n".join(sheet.extract_text() for sheet in PdfReader(path).pages)
    except PyPdfError as error:
        raise ConfigError(f"{path} is not a PDF that pypdf can read: {error}") from None


def _glossary(codes: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table, one column for each language."""
    for term, *cells in rows:
        pairs = zip(codes[1:], cells, strict=False)
        given = " | ".join(f"{code}: {cell.strip()}" for code, cell in pairs if cell.strip())
        yield f"{term.strip()} = {given}" if given else term.strip()
