"""Record the signals of drafted tokens, and whether the tokens are correct."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from alignatt_agent.policy.base import Reads
from alignatt_agent.policy.rivals import agreed
from alignatt_agent.policy.rows import head_mean
from alignatt_agent.types import (
    NO_CONTEXT,
    Decision,
    Draft,
    DraftContext,
    FloatArray,
    StopReason,
)
from lab.curves.oracle import OpenSentence, Oracle

IntArray = npt.NDArray[np.int64]

SLOWEST = 4
"""Number of drafts that agree on a token before it is accepted.

The tokens of a slow policy are drafted again and again, so that faster policies can be simulated.
"""

MARGINS = (0, -2, -4)
"""Margins for which the share of a token's attention before the border is a signal."""

_LEAST = 1e-4
"""Prevents infinite log odds and a division by zero."""

_FARTHEST = 8
"""Larger distances of a peak from the border are equal to this one."""


@dataclass(frozen=True, slots=True)
class Step:
    """A draft of an open sentence, up to the first token that is wrong.

    A token is wrong if the off-line translation has another token at its place.

    Attributes:
        chunk: number of the audio chunk after which the draft was requested.
        accepted: number of tokens of the translation that were accepted before.
        correct: number of leading tokens that are not wrong.
        signals: values of all signals, ``[tokens, signals]``.
        agreeing: number of successive drafts that agree up to each token, at most ``SLOWEST``,
            ``[tokens]``.
        distances: number of source tokens from the attention peak of each token to the border,
            ``[tokens]``; not positive if the peak is not accessible.
    """

    chunk: int
    accepted: int
    correct: int
    signals: FloatArray
    agreeing: IntArray
    distances: IntArray


@dataclass(slots=True)
class Sentence:
    """All drafts of a sentence, in order.

    Attributes:
        tokens: number of tokens of its off-line translation.
        steps: the drafts.
        end: number of the chunk after which the end of the sentence was known.
    """

    tokens: int
    steps: list[Step] = field(default_factory=list)
    end: int = 0


class RecordedSentence(OpenSentence):
    """The open sentence of a talk; ``sentences`` has the records of all sentences so far."""

    def __init__(self) -> None:
        self.sentences: list[Sentence] = []

    def begin(self, offline: tuple[int, ...]) -> None:
        """Begin a sentence with this off-line translation."""
        if self.sentences:
            self.sentences[-1].end = self.chunk
        super().begin(offline)
        self.sentences.append(Sentence(len(offline)))


class Recording(Oracle):
    """Records each draft, and accepts tokens that are not wrong if enough drafts agree on them."""

    reads: ClassVar[Reads] = "probabilities"
    name: Literal["recording"] = "recording"  # type: ignore[assignment]
    sentence: Any = Field(default_factory=RecordedSentence)

    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Record the draft; accept what the oracle accepts and ``SLOWEST`` drafts contain."""
        correct = super().decide(draft, frontier, context).accepted
        if draft.token_ids:
            step = _step(draft, frontier, context, correct, self.sentence)
            self.sentence.sentences[-1].steps.append(step)
        return Decision(min(correct, agreed(draft, context, SLOWEST)), StopReason.DISAGREEMENT)


def _step(
    draft: Draft, frontier: int, context: DraftContext, correct: int, sentence: OpenSentence
) -> Step:
    """Return the record of a draft."""
    assert draft.rows is not None
    count = min(correct + 1, len(draft.token_ids))
    rows = head_mean(draft.rows.source)[:count]
    agreeing = np.ones(count, np.int64)
    for drafts in range(2, SLOWEST + 1):
        agreeing[: agreed(draft, context, drafts)] = drafts
    distances = frontier - rows.argmax(axis=1)

    probabilities = np.clip(draft.probabilities[:count], _LEAST, 1 - _LEAST)
    signals = {"log odds of the token": np.log(probabilities / (1 - probabilities))}
    for drafts in range(2, SLOWEST + 1):
        signals[f"{drafts} drafts agree"] = agreeing >= drafts
    masses = rows.sum(axis=1) + _LEAST
    for margin in MARGINS:
        edge = max(0, frontier + margin)
        signals[f"share of attention before margin {margin}"] = rows[:, :edge].sum(axis=1) / masses
    signals["attention on the accessible source"] = rows[:, :frontier].sum(axis=1)
    signals["distance of the peak from the border"] = np.clip(distances, -_FARTHEST, _FARTHEST)
    signals["source tokens beyond the border"] = np.full(count, rows.shape[1] - frontier)
    signals["later tokens of the draft"] = len(draft.token_ids) - 1 - np.arange(count)
    signals["the model ended its turn"] = np.full(count, draft.ended)
    return Step(
        chunk=sentence.chunk,
        accepted=len(sentence.accepted),
        correct=correct,
        signals=np.stack(list(signals.values()), axis=1).astype(np.float32),
        agreeing=agreeing,
        distances=distances,
    )
