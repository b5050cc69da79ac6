"""Reads calibration pairs: JSON lines, tab-separated text, or the generated micro world."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from alignatt_agent.calibration.contamination import JSON_MARK, TSV_MARK, check_place, refuse
from alignatt_agent.calibration.micro_pairs import micro_pairs
from alignatt_agent.calibration.pairs import (
    PairError,
    Pairs,
    PairsError,
    SentencePair,
    make_pair,
)
from alignatt_agent.calibration.word_alignment import format_pharaoh, parse_pharaoh
from alignatt_agent.config.languages import Language

FORMAT = """\
a pairs file is UTF-8 text, one pair a line, either
  JSON lines   {"source": "We train a model.", "target": "Wir trainieren ein Modell.",
                "alignment": "0-0 1-1 2-2 3p2 3-3"}
               optional: "source_words", "target_words" (lists, when the units below do not fit)
  or tab-separated   SOURCE <tab> TARGET [<tab> ALIGNMENT]; lines with # are comments
alignments are Pharaoh pairs SOURCE-TARGET (p instead of - for a possible link), counted from 0 in
white-space separated words with their punctuation; on a side in Chinese, Japanese or Korean in
characters, white space not counted.
evaluation data is refused: mark such a file with a line "# evaluation" (tab-separated) or a field
"evaluation": true in any record. Files inside a dev set are refused without a mark.
micro:N[:SEED] stands for N generated pairs of the micro world with gold alignments."""

MICRO = re.compile(r"micro:(\d+)(?::(\d+))?")
MICRO_SEED = 77


def read_pairs(spec: str, source: Language, target: Language) -> Pairs:
    """Read the pairs that the command line names.

    Args:
        spec: path of a file, or ``micro:N[:SEED]``.
        source: source language.
        target: target language.

    Raises:
        PairsError: the file is missing, empty, or evaluation data.
    """
    match = MICRO.fullmatch(spec)
    if match is not None:
        return micro_pairs(int(match[1]), int(match[2] or MICRO_SEED), source, target)
    path = Path(spec)
    if not path.is_file():
        raise PairsError(
            f"{spec} does not exist; give a JSONL or TSV file of pairs, or micro:N[:SEED]"
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
        raise PairsError(f"{path} holds no usable pair; left out: {dict(skipped) or 'nothing'}")
    return Pairs(path.name, tuple(pairs), skipped)


def write_pairs(found: Pairs, path: Path) -> None:
    """Write pairs with their gold alignments as JSON lines that ``read_pairs`` reads back."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as stream:
        for pair in found.pairs:
            record: dict[str, Any] = {
                "source": " ".join(pair.source),
                "target": pair.target,
                "source_words": list(pair.source),
                "target_words": pair.units,
            }
            if pair.gold is not None:
                record["alignment"] = format_pharaoh(pair.gold)
            stream.write(json.dumps(record, ensure_ascii=False) + "\n")


def _records(path: Path) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Yield numbered records; a line that cannot be read comes as its text."""
    as_json: bool | None = True if path.suffix in (".jsonl", ".json") else None
    with path.open(encoding="utf-8", errors="replace") as stream:
        for number, line in enumerate(stream, 1):
            text = line.rstrip("\r\n")
            if not text.strip():
                continue
            if as_json is None:
                as_json = text.lstrip().startswith("{")
            if as_json:
                yield number, _json_record(text, path)
            elif TSV_MARK.match(text):
                raise refuse(path, f"line {number} marks it as such")
            elif not text.startswith("#"):
                cells = dict(zip(("source", "target", "alignment"), text.split("\t"), strict=False))
                yield number, cells if len(cells) > 1 else text


def _json_record(text: str, path: Path) -> dict[str, Any] | str:
    try:
        record = json.loads(text)
    except ValueError:
        return text
    if not isinstance(record, dict):
        return text
    if record.get(JSON_MARK):
        raise refuse(path, f'a record has "{JSON_MARK}": true')
    return record


def _pair(
    number: int, record: dict[str, Any] | str, source: Language, target: Language
) -> SentencePair:
    if isinstance(record, str):
        raise PairError("malformed_line", f"line {number} is not a pair: {record[:80]!r}")
    texts = [record.get("source"), record.get("target")]
    if not all(isinstance(text, str) for text in texts):
        raise PairError("malformed_line", f"line {number} lacks source or target text")
    links = None
    if record.get("alignment"):
        try:
            links = parse_pharaoh(str(record["alignment"]))
        except ValueError as error:
            raise PairError("malformed_alignment", f"line {number}: {error}") from None
    words = _word_list(record, "source_words", number)
    if words is None:
        words = str(texts[0]).split() if source.spaced else list("".join(str(texts[0]).split()))
    targets = _word_list(record, "target_words", number)
    return make_pair(number, words, str(texts[1]), targets, links, spaced=target.spaced)


def _word_list(record: dict[str, Any], key: str, number: int) -> list[str] | None:
    value = record.get(key)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise PairError("malformed_line", f"line {number}: {key} is not a list of words")
    return value
