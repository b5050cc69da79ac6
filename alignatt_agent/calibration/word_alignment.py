"""Word alignments: Pharaoh notation and the alignment error rate.

A link ``(i, j)`` joins source word ``i`` and target unit ``j``, both counted from 0.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from dataclasses import dataclass

Link = tuple[int, int]

_LINK = re.compile(r"(\d+)(-|p|\?)(\d+)")


@dataclass(frozen=True, slots=True)
class Links:
    """Alignment of one sentence pair."""

    sure: frozenset[Link]  # what every annotator would draw; all links of an automatic aligner
    possible: frozenset[Link]  # right, but may be missing; contains ``sure``

    @classmethod
    def of(cls, sure: Iterable[Link], possible: Iterable[Link] = ()) -> Links:
        """Build from any iterables; ``possible`` need not repeat the sure links."""
        certain = frozenset(sure)
        return cls(certain, certain | frozenset(possible))

    def at(self, targets: Container[int]) -> Links:
        """Keep the links of some target units only."""
        sure, possible = (
            frozenset(link for link in links if link[1] in targets)
            for links in (self.sure, self.possible)
        )
        return Links(sure, possible)

    def sources(self, target: int) -> tuple[int, ...]:
        """Source words that a target unit is linked to, sure or possible, in order."""
        return tuple(sorted(i for i, j in self.possible if j == target))


def parse_pharaoh(text: str) -> Links:
    """Read ``"0-0 1p2"``: ``-`` joins sure links, ``p`` or ``?`` possible ones."""
    sure: set[Link] = set()
    possible: set[Link] = set()
    for item in text.split():
        match = _LINK.fullmatch(item)
        if match is None:
            raise ValueError(f"{item!r} is not a link such as 3-4 (sure) or 3p4 (possible)")
        link = (int(match[1]), int(match[3]))
        (sure if match[2] == "-" else possible).add(link)
    return Links.of(sure, possible)


@dataclass(frozen=True, slots=True)
class ErrorRate:
    """Agreement of alignments with gold ones."""

    aer: float  # alignment error rate (Och and Ney, 2003); 0 is perfect
    precision: float  # share of the found links that are possible
    recall: float  # share of the sure links that were found

    @classmethod
    def over(cls, pairs: Iterable[tuple[frozenset[Link], Links]]) -> ErrorRate:
        """Sum over sentence pairs: the links that were found, and the gold ones."""
        found = sure = found_sure = found_possible = 0
        for links, gold in pairs:
            found += len(links)
            sure += len(gold.sure)
            found_sure += len(links & gold.sure)
            found_possible += len(links & gold.possible)
        return cls(
            1 - (found_sure + found_possible) / max(1, found + sure),
            found_possible / max(1, found),
            found_sure / max(1, sure),
        )
