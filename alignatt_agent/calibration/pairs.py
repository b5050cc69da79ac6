"""Split sentence pairs into source words and target units, which alignments link."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from alignatt_agent.config.digests import short_digest
from alignatt_agent.types import AlignAttError

Span = tuple[int, int]

Links = frozenset[tuple[int, int]]
"""Pairs of a source word and a target unit, both counted from 0."""

# Words may contain apostrophes, periods and hyphens: don't, 3.5, e-mail.
_PIECE = re.compile(r"[^\W_]+(?:['\u2019.\-][^\W_]+)*|\S")
# In scripts without spaces, runs of Latin letters and digits are one unit.
_CHARACTER = re.compile(r"[0-9A-Za-z]+|\S")


class PairError(ValueError):
    """An unusable pair, counted under ``reason``, e.g. ``"empty_side"``."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)  # pass both arguments, because errors are pickled
        self.reason = reason

    def __str__(self) -> str:
        return str(self.args[1])


class PairsError(AlignAttError, ValueError):
    """A pairs file cannot be used; the message states the cause and the fix."""


class CalibrationError(AlignAttError, RuntimeError):
    """Words cannot be aligned, or heads cannot be scored; the message states cause and fix."""

    exit_status = 1


@dataclass(frozen=True, slots=True)
class SentencePair:
    """A source sentence as the recognizer writes it, and its translation as the model writes it.

    A target unit is a word or a punctuation mark. In a script without spaces, a target unit is a
    character or a run of Latin letters and digits.
    """

    source: tuple[str, ...]  # words, with punctuation attached
    target: str
    spans: tuple[Span, ...]  # start and end of each target unit, in characters
    gold: Links | None = None  # alignments from the file, if any

    @property
    def units(self) -> list[str]:
        """Return the text of every target unit."""
        return [self.target[begin:end] for begin, end in self.spans]


@dataclass(frozen=True, slots=True)
class Pairs:
    """The usable pairs of one file, and the number of unusable pairs by reason."""

    name: str
    pairs: tuple[SentencePair, ...]
    skipped: Counter[str] = field(default_factory=Counter)

    def digest(self) -> str:
        """Return a hash of the usable pairs (12 hexadecimal digits)."""
        return digest_of((pair.source, pair.target, pair.spans) for pair in self.pairs)

    def keeping(self, remaining: Sequence[SentencePair], reason: str) -> Pairs:
        """Keep the ``remaining`` pairs, and count all other pairs under ``reason``."""
        dropped = len(self.pairs) - len(remaining)
        skipped = self.skipped + Counter({reason: dropped})
        return Pairs(self.name, tuple(remaining), skipped)


def without_repeats(pairs: Pairs, seen: set[tuple[tuple[str, ...], str]]) -> Pairs:
    """Drop pairs whose texts are in ``seen``; add the texts of the other pairs to ``seen``."""
    new_pairs: list[SentencePair] = []
    for pair in pairs.pairs:
        texts = (pair.source, pair.target)
        if texts in seen:
            continue
        seen.add(texts)
        new_pairs.append(pair)
    return pairs.keeping(new_pairs, "repeated")


def digest_of(values: Iterable[object]) -> str:
    """Return a hash of the ``repr`` of plain values (12 hexadecimal digits)."""
    return short_digest(repr(value).encode() for value in values)


def make_pair(
    source: Sequence[str],
    target: str,
    links: Links | None,
    *,
    spaced: bool,
    counted: Sequence[Span] | None = None,
) -> SentencePair:
    """Check one pair and split its target into units.

    Gold ``links`` contain the numbers of ``counted`` parts of the target. If ``counted`` is
    ``None``, the parts are words or, if the language is not ``spaced``, characters.
    """
    if not source or not target.strip():
        raise PairError("empty_side")
    if counted is None:
        part_pattern = r"\S+" if spaced else r"\S"
        counted = [part.span() for part in re.finditer(part_pattern, target)]
    spans = _unit_spans(target, counted, spaced)
    if links is None:
        return SentencePair(tuple(source), target, spans)
    for word, part_number in links:
        if word >= len(source) or part_number >= len(counted):
            raise PairError("alignment_out_of_range")
    # A counted word may consist of several units, e.g. a word and a period.
    gold = _inherit(links, counted, spans)
    return SentencePair(tuple(source), target, spans, gold)


def _unit_spans(target: str, counted: Sequence[Span], spaced: bool) -> tuple[Span, ...]:
    """Return the spans of the units of ``target``; in a spaced language, of its parts."""
    if not spaced:
        # A run of Latin letters is one unit, but each letter is counted.
        return tuple(unit.span() for unit in _CHARACTER.finditer(target))
    spans: list[Span] = []
    for begin, end in counted:
        units = _PIECE.finditer(target, begin, end)
        spans.extend(unit.span() for unit in units)
    return tuple(spans)


def _inherit(links: Links, counted: Sequence[Span], spans: Sequence[Span]) -> Links:
    """Convert links to the ``counted`` parts of the target into links to its units."""
    inherited: set[tuple[int, int]] = set()
    for word, part_number in links:
        part_begin, part_end = counted[part_number]
        for unit, (begin, end) in enumerate(spans):
            if part_begin < end and begin < part_end:
                inherited.add((word, unit))
    return frozenset(inherited)
