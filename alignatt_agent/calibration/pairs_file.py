"""Calibration pairs: read from a file, or generated in the micro world.

a pairs file is UTF-8 text, one pair a line, either
  JSON lines   {"source": "We train a model.", "target": "Wir trainieren ein Modell.",
                "alignment": "0-0 1-1 2-2 3p2 3-3"}
               optional: "source_words", "target_words" (lists, if the units below do not fit)
  or tab-separated   SOURCE <tab> TARGET [<tab> ALIGNMENT]; lines with # are comments
alignments are Pharaoh pairs SOURCE-TARGET (p instead of - for a possible link), counted from 0 in
white-space separated words with their punctuation; in Chinese, Japanese and Korean in characters
without white space.
evaluation data is refused: mark such a file with a line "# evaluation" (tab-separated) or a field
"evaluation": true in any record. Files inside a dev set are refused without a mark.
micro:N[:SEED] stands for N generated pairs of the micro world with gold alignments.
"""

import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from alignatt_agent.calibration.contamination import JSON_MARK, TSV_MARK, check_place, refuse
from alignatt_agent.calibration.pairs import (
    Links,
    PairError,
    Pairs,
    PairsError,
    SentencePair,
    make_pair,
)
from alignatt_agent.config.languages import Language


class _Record(BaseModel, strict=True):
    source: str
    target: str
    alignment: str | None = None
    source_words: list[str] | None = None
    target_words: list[str] | None = None


_LINK = re.compile(r"(\d+)[-p?](\d+)")

MICRO = re.compile(r"micro:(\d+)(?::(\d+))?")
MICRO_SEED = 77


def read_pairs(spec: str, source: Language, target: Language) -> Pairs:
    """Read the pairs of a file, or generate them for a ``spec`` like ``micro:N[:SEED]``."""
    match = MICRO.fullmatch(spec)
    if match is not None:
        return _generated(int(match[1]), int(match[2] or MICRO_SEED), source, target)
    path = Path(spec)
    if not path.is_file():
        raise PairsError(
            f"{spec} does not exist; name a JSONL or TSV file of pairs, or micro:N[:SEED]"
        )
    check_place(path)
    pairs: list[SentencePair] = []
    skipped: Counter[str] = Counter()
    for number, record in _records(path):
        try:
            pairs.append(_pair(number, record, source, target))
        except PairError as error:
            skipped[error.reason] += 1
    if not pairs:
        raise PairsError(f"{path} holds no usable pair; skipped: {dict(skipped) or 'nothing'}")
    return Pairs(path.name, tuple(pairs), skipped)


def _records(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield numbered records, unchecked; an unreadable line is yielded as text."""
    as_json: bool | None = True if path.suffix in (".jsonl", ".json") else None
    with path.open(encoding="utf-8-sig", errors="replace") as stream:
        for number, line in enumerate(stream, 1):
            text = line.rstrip("\r\n")
            if not text.strip():
                continue
            if as_json is None:
                as_json = text.lstrip().startswith("{")
            if as_json:
                record: Any = text
                with contextlib.suppress(ValueError):
                    record = json.loads(text)
                if isinstance(record, dict) and record.get(JSON_MARK):
                    raise refuse(path, f'line {number} has "{JSON_MARK}": true')
                yield number, record
            elif TSV_MARK.match(text):
                raise refuse(path, f"line {number} marks it as such")
            elif not text.startswith("#"):
                cells = zip(("source", "target", "alignment"), text.split("\t"), strict=False)
                yield number, dict(cells)


def _pair(number: int, raw: Any, source: Language, target: Language) -> SentencePair:
    try:
        record = _Record.model_validate(raw)
    except ValidationError as error:
        raise PairError("malformed_line", f"line {number} is not a pair: {error}") from None
    links = None
    if record.alignment:
        try:
            links = parse_pharaoh(record.alignment)
        except ValueError as error:
            raise PairError("malformed_alignment", f"line {number}: {error}") from None
    units = record.source.split()
    words = record.source_words or (units if source.spaced else list("".join(units)))
    return make_pair(number, words, record.target, record.target_words, links, spaced=target.spaced)


def parse_pharaoh(text: str) -> Links:
    """Read ``"0-0 1p2"``: ``-`` joins sure links, ``p`` or ``?`` possible ones; all count."""
    found = [(item, _LINK.fullmatch(item)) for item in text.split()]
    for item, match in found:
        if match is None:
            raise ValueError(f"{item!r} is not a link such as 3-4 (sure) or 3p4 (possible)")
    return frozenset((int(match[1]), int(match[2])) for _, match in found if match)


def _generated(count: int, seed: int, source: Language, target: Language) -> Pairs:
    try:  # by name: the generator imports this package and is not part of the wheel
        generator = import_module("lab.micro_world.pairs")
    except ModuleNotFoundError:
        raise PairsError(
            "micro:N[:SEED] needs the generator in lab/micro_world/ of the repository: run from a "
            "checkout of alignatt_agent, or name a JSONL or TSV file of pairs"
        ) from None
    drawn: Pairs = generator.micro_pairs(count, seed, source, target)
    return drawn
