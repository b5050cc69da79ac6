"""Define the interfaces of the forced aligner and the translation engine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from alignatt_agent.types import Draft, FloatArray, Prompt


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's greedy continuation of a prompt with audio.

    Attributes:
        token_ids: generated ids without the end-of-turn id.
        ended: whether the model ended its turn.
        steps: number of forward passes, one per sampled token.
        requests: number of requests to the engine.
    """

    token_ids: tuple[int, ...]
    ended: bool
    steps: int = 0
    requests: int = 1


@dataclass(frozen=True, slots=True)
class AlignedItem:
    """A word from the forced aligner; times are seconds from the start of the audio."""

    text: str
    start: float
    end: float


class Aligner(Protocol):
    """Forced alignment of a waveform and its transcript."""

    def align(self, audio: FloatArray, text: str, language: str) -> list[AlignedItem]:
        """Return ``text`` as words with times; their number may differ from ``text.split()``."""


Row = Literal["predicting", "emitted"]
"""The query whose attention is used for a draft token: ``predicting``, one position earlier, which
predicts the token, or ``emitted``, at the token itself (the paper's rows)."""


@dataclass(frozen=True, slots=True)
class Readout:
    """Specifies the attention rows that a draft request returns.

    Attributes:
        heads: ``(layer, head)`` pairs, in the order of ``AttentionRows``' head axis.
        row: the query whose rows are returned.
        probabilities: whether to return the probabilities of tokens, which disables verification.
    """

    heads: tuple[tuple[int, int], ...]
    row: Row
    probabilities: bool = False


@dataclass(frozen=True, slots=True)
class Gate:
    """A first-failure scan that an engine may run while it drafts.

    Attributes:
        settings: configuration of the policy that defines the scan, including its name.
        frontier: number of source tokens that belong to accessible words.
    """

    settings: Mapping[str, float | str]
    frontier: int


class TranslationEngine(Protocol):
    """Greedy continuation of a prompt with attention rows."""

    def draft(
        self,
        prompt: Prompt,
        max_tokens: int,
        readout: Readout | None = None,
        gate: Gate | None = None,
        resumed: Draft | None = None,
        expected: Sequence[int] = (),
    ) -> Draft:
        """Continue ``prompt`` greedily by at most ``max_tokens`` tokens.

        With a ``readout``, ``Draft.rows`` contains one row per returned token; else it is ``None``.

        Args:
            prompt: the prompt to continue.
            max_tokens: maximum length of the draft, including the tokens of ``resumed``.
            readout: attention rows to return.
            gate: permission to stop at the first token that this gate rejects. This token is then
                returned last, with its row, and the draft is ``cut``. May be ignored.
            resumed: an earlier draft of the same prompt and readout; the result begins with it.
            expected: probable next tokens, which only save steps; the engine may ignore them.

        Raises:
            EngineError: the engine failed or returned fewer rows than tokens.
        """
