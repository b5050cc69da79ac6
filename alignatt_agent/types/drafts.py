"""Prompts, drafts, and the decisions of a policy on them."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Prompt:
    """Token ids of Eq. 1 up to the accepted translation, with the marked source span.

    Attributes:
        token_ids: system prompt, history, source, instruction and accepted translation.
        source_start: position of the first source token.
        token_word: word index of each token of the source span, in order.
    """

    token_ids: tuple[int, ...]
    source_start: int
    token_word: tuple[int, ...]

    @property
    def source_end(self) -> int:
        """Return the position after the last source token."""
        return self.source_start + len(self.token_word)


@dataclass(frozen=True, slots=True)
class AttentionRows:
    """Attention of each draft token over the prompt, per calibrated head (Eq. 2).

    Attributes:
        source: ``[draft tokens, heads, source tokens]``; a softmax over the full row, restricted to
            the source span, so that a row sums to at most 1.
        prompt: ``[draft tokens, heads]``; attention mass on prompt tokens outside the source span.
        suffix: ``[draft tokens, heads]``; attention mass on draft tokens.
    """

    source: FloatArray
    prompt: FloatArray
    suffix: FloatArray

    def __getitem__(self, tokens: slice | npt.NDArray[np.intp]) -> "AttentionRows":
        return AttentionRows(self.source[tokens], self.prompt[tokens], self.suffix[tokens])

    def __add__(self, more: "AttentionRows") -> "AttentionRows":
        return AttentionRows(
            source=np.concatenate([self.source, more.source]),
            prompt=np.concatenate([self.prompt, more.prompt]),
            suffix=np.concatenate([self.suffix, more.suffix]),
        )


@dataclass(frozen=True, slots=True)
class Draft:
    """A greedy continuation of a prompt.

    Attributes:
        token_ids: drafted ids without the end-of-turn token.
        ended: whether the model ended its turn within ``max_tokens``.
        rows: one row per drafted token; ``None`` without a readout.
        cut: whether the engine stopped because the gate rejected the last token.
        steps: number of forward passes, one per sampled token.
        replay_s: seconds in which the engine computed the rows; on a GPU, only host time.
        probabilities: probabilities of the drafted tokens, if the readout requests them.
    """

    token_ids: tuple[int, ...]
    ended: bool
    rows: AttentionRows | None = None
    cut: bool = False
    steps: int = 0
    replay_s: float = 0.0
    probabilities: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class DraftContext:
    """Input of policies that do not read attention.

    Attributes:
        unit_ends: returns the ascending numbers of draft tokens at which stability units end; the
            last number is the length of the draft, even if its unit is not complete.
        earlier: continuations of the accepted translation in drafts of earlier sources of this
            utterance, latest first, up to the first token that the gate rejected. A continuation is
            empty if the draft contradicts the accepted translation.
        heard: number of accessible words in the utterance.
        written: returns the number of units in the accepted translation.
    """

    # Functions, because decoding units costs time that most policies do not need. The defaults are
    # no units (``tuple()``) and the number 0 (``int()``).
    unit_ends: Callable[[], tuple[int, ...]] = tuple
    earlier: tuple[tuple[int, ...], ...] = ()
    heard: int = 0
    written: Callable[[], int] = int


NO_CONTEXT = DraftContext()


class StopReason(StrEnum):
    """A reason for rejecting the rest of a draft: Eqs. 5-7, or another rule."""

    # The values are part of logs and of the live server's messages, so they must not change.
    SOURCE_FRONTIER = "source-frontier"
    ARGMAX_MASS_WEAK = "argmax-mass-weak"
    PROVENANCE_WEAK = "provenance-weak"
    HELD_BACK = "held-back"
    DISAGREEMENT = "disagreement"
    UNSURE = "unsure"
    DRAFT_END = "draft-end"


@dataclass(frozen=True, slots=True)
class Decision:
    """A policy's decision on one draft.

    Attributes:
        accepted: number of leading draft tokens that may be emitted, before unit rounding.
        reason: a ``StopReason``, or a text that the policy defines.
        peaks: source-token argmax of each scanned row, including the rejected one.
        accessible_mass: value of Eq. 3 for each scanned row.
        closed: whether the gate rejected the last scanned token.
    """

    accepted: int
    reason: str
    peaks: tuple[int, ...] = ()
    accessible_mass: tuple[float, ...] = ()
    closed: bool = False


@dataclass(frozen=True, slots=True)
class GatedDraft:
    """A draft for the open utterance, and the decision on it.

    Attributes:
        accepted: text of the utterance's translation before this draft.
        tokens: text of each drafted token.
        words: source word at the attention peak of each token that the policy read; empty without
            rows.
        decision: the decision of the policy.
        edge: number of leading source words at which attention may peak; with a negative border
            margin, fewer than the accessible words.
        emitted: number of leading draft tokens that are emitted, in whole units.
    """

    accepted: str
    tokens: tuple[str, ...]
    words: tuple[int, ...]
    decision: Decision
    edge: int
    emitted: int = 0
