"""Word aligners: where the links come from that heads are judged by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from alignatt_agent.calibration.pairs import PairError, SentencePair
from alignatt_agent.calibration.word_alignment import Links
from alignatt_agent.types import AlignAttError

Alignment = tuple[int, Links | PairError]
"""Place of a pair in the list that was given, and its links or why there are none."""


class AlignerError(AlignAttError, RuntimeError):
    """An aligner cannot work at all; the message says what is missing and how to get it."""

    exit_status = 1


class WordAligner(Protocol):
    """Aligns sentence pairs.

    Attributes:
        name: what files call it, with its model.
        version: version of the program or library behind it.
        whole: whether it needs all pairs at once, so that no part can be kept on its own.
    """

    name: str
    version: str
    whole: bool

    def align(self, pairs: Sequence[SentencePair]) -> Iterator[Alignment]:
        """Yield one result per pair, in any order, as they come.

        Raises:
            AlignerError: no pair can be aligned.
        """


class Gold:
    """The alignments that the pairs file came with."""

    name = "gold alignments of the pairs file"
    version = ""
    whole = False

    def align(self, pairs: Sequence[SentencePair]) -> Iterator[Alignment]:
        """Yield the gold links, see ``WordAligner``."""
        if not any(pair.gold for pair in pairs):
            raise AlignerError(
                "the pairs have no alignments; give a file that has them, or choose an aligner: "
                "--aligner eflomal, simalign or openai"
            )
        for at, pair in enumerate(pairs):
            missing = PairError("no_gold", f"pair {pair.number} has no alignment")
            yield at, pair.gold or missing
