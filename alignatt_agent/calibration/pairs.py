"""Split sentence pairs into source words and target units, which alignments link."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from alignatt_agent.types import AlignAttError

Span = tuple[int, int]

Links = frozenset[tuple[int, int]]
"""Pairs of a source word and a target unit, both counted from 0."""

_PIECE = re.compile(r"[^\W_]+(?:['\u2019.\-][^\W_]+)*|\S")
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
        return digest_of((p.source, p.target, p.spans) for p in self.pairs)

    def keeping(self, kept: Sequence[SentencePair], reason: str) -> Pairs:
        """Keep the pairs in ``kept``, and count all other pairs under ``reason``."""
        dropped = Counter({reason: len(self.pairs) - len(kept)})
        return Pairs(self.name, tuple(kept), self.skipped + dropped)


def without_repeats(found: Pairs, seen: set[tuple[tuple[str, ...], str]]) -> Pairs:
    """Drop pairs whose texts are in ``seen``; add the texts of the other pairs to ``seen``."""
    kept = []
    for pair in found.pairs:
        if (pair.source, pair.target) not in seen:
            seen.add((pair.source, pair.target))
            kept.append(pair)
    return found.keeping(kept, "repeated")


def digest_of(items: Iterable[object]) -> str:
    """Return a hash of the ``repr`` of plain values (12 hexadecimal digits)."""
    digest = hashlib.sha256()
    for item in items:
        digest.update(repr(item).encode())
    return digest.hexdigest()[:12]


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
        counted = [word.span() for word in re.finditer(r"\S+" if spaced else r"\S", target)]
    parts, pattern = (counted, _PIECE) if spaced else ([(0, len(target))], _CHARACTER)
    spans = tuple(unit.span() for part in parts for unit in pattern.finditer(target, *part))
    if links is not None:
        if any(i >= len(source) or j >= len(counted) for i, j in links):
            raise PairError("alignment_out_of_range")
        links = _inherit(links, counted, spans)
    return SentencePair(tuple(source), target, spans, links)


def _inherit(links: Links, counted: Sequence[Span], spans: Sequence[Span]) -> Links:
    """Convert links to the ``counted`` parts of the target into links to its units."""
    return frozenset(
        (i, unit)
        for unit, (begin, end) in enumerate(spans)
        for i, j in links
        if counted[j][0] < end and begin < counted[j][1]
    )
