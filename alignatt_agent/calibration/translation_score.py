"""Translation Score: how often a head's attention peak hits the aligned source word.

The score is taken under the run-time prompt layout (Eq. 1): for each aligned target token, the
head's argmax over the source span has to fall on a token of an aligned source word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from alignatt_agent.types import AttentionRows, FloatArray, Prompt
from alignatt_agent.types.engines import Readout

Row = Literal["predicting", "emitted"]
ROWS: tuple[Row, ...] = ("predicting", "emitted")
Head = tuple[int, int]
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class AlignedPair:
    """A prompt, the ids of its translation, and per target token the aligned source words."""

    prompt: Prompt  # the request up to the translation
    target_ids: tuple[int, ...]
    source_words: tuple[tuple[int, ...], ...]  # empty where a target token is not aligned
    number: int = 0  # place in its file

    @property
    def aligned(self) -> int:
        """Number of aligned tokens."""
        return sum(1 for words in self.source_words if words)


class RowReader(Protocol):
    """An engine that returns the attention rows of a given translation."""

    def rows(self, prompt: Prompt, token_ids: Sequence[int], readout: Readout) -> AttentionRows:
        """Return one teacher-forced row per token of ``token_ids`` after ``prompt``."""


def both_rows(reader: RowReader, pair: AlignedPair, heads: Sequence[Head]) -> dict[Row, FloatArray]:
    """Read the rows of both conventions in one pass, ``[target tokens, heads, source tokens]``.

    The query that predicts a token sits at the token before it. So the predicting rows of the
    translation and one more token, whichever it is, hold the rows of both conventions.
    """
    fed = (*pair.target_ids, pair.target_ids[-1])
    rows = reader.rows(pair.prompt, fed, Readout(tuple(heads), "predicting")).source
    return {"predicting": rows[:-1], "emitted": rows[1:]}


def hits(rows: FloatArray, pair: AlignedPair) -> npt.NDArray[np.bool_]:
    """Tell which peaks of the aligned target tokens, ``[tokens, ..., source]``, hit their words."""
    words = np.asarray(pair.prompt.token_word)[rows.argmax(-1)]
    return np.stack(
        [np.isin(words[t], source) for t, source in enumerate(pair.source_words) if source]
    )


def head_hits(rows: FloatArray, pair: AlignedPair) -> Counts:
    """Count the hits of every head: ``[heads]`` from ``[target tokens, heads, source tokens]``."""
    return np.asarray(hits(rows, pair).sum(0, dtype=np.int64))


def cumulative_hits(rows: FloatArray, pair: AlignedPair, ranking: Sequence[int]) -> Counts:
    """Count the hits of the mean row over the first 1, 2, ... heads of a ranking, in that order."""
    # The argmax of a sum is that of the mean.
    return head_hits(np.cumsum(rows[:, list(ranking)], axis=1, dtype=np.float64), pair)


def rank(counts: Counts) -> list[int]:
    """Places of the heads from most to fewest hits; ties keep the model's order."""
    return [int(i) for i in np.argsort(-counts, kind="stable")]
