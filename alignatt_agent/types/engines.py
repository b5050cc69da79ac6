"""Define the interfaces of the recognizer, the forced aligner and the engines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from alignatt_agent.types import Draft, FloatArray, Prompt, Transcript


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


class Recognizer(Protocol):
    """Speech recognition of a waveform in a forced language."""

    def transcribe(
        self, audio: FloatArray, language: str, context: str = "", expected: str = ""
    ) -> Transcript:
        """Return the transcript of ``audio``, ``[samples]``.

        Args:
            audio: the waveform.
            language: code of the spoken language.
            context: names and terms that may occur, one per line.
            expected: probable beginning of the transcript, which only saves time.

        Raises:
            EngineError: the engine failed.
        """


class Aligner(Protocol):
    """Forced alignment of a waveform and its transcript."""

    def align(self, audio: FloatArray, text: str, language: str) -> list[AlignedItem]:
        """Return ``text`` as words with times; their number may differ from ``text.split()``."""


class AudioEngine(Protocol):
    """Greedy continuation of a prompt with audio."""

    tokenizer: Any

    def generate(
        self,
        token_ids: Sequence[int],
        audio: FloatArray,
        max_tokens: int,
        expected: Sequence[int] = (),
    ) -> Answer:
        """Continue ``token_ids`` greedily by at most ``max_tokens`` tokens.

        ``audio`` is ``[samples]``. ``expected`` is the probable start of the answer; the engine may
        ignore it.
        """


class TokenTimesEngine(Protocol):
    """Timestamps of a transcript's tokens, from attention to the audio."""

    name: str
    tokenizer: Any

    def token_starts(
        self, audio: FloatArray, prompt: Sequence[int], token_ids: Sequence[int]
    ) -> list[float]:
        """Return the start of each token in ``token_ids`` and the end of the last one, in seconds.

        ``audio`` is ``[samples]``. ``prompt`` contains the language and the task.
        """


class TimeBinsEngine(Protocol):
    """Classification of timestamp tokens into time bins of ``bin_ms`` milliseconds."""

    bin_ms: float
    processor: Any
    tokenizer: Any

    def bins(self, token_ids: list[int], audio: FloatArray) -> list[int]:
        """Return the most likely bin at each timestamp token; ``audio`` is ``[samples]``."""


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

    # Plain values and not the policy, because they are sent to the engine's worker processes.
    settings: Mapping[str, float | str]
    frontier: int


@dataclass(frozen=True, slots=True)
class DraftRequest:
    """A request for a greedy continuation of a prompt.

    Attributes:
        prompt: the prompt to continue.
        max_tokens: maximum length of the draft, including the tokens of ``resumed``.
        readout: attention rows to return.
        gate: permission to stop at the first token that this gate rejects. This token is then
            returned last, with its row, and the draft is ``cut``. May be ignored.
        resumed: an earlier draft of the same prompt and readout; the result begins with it.
        expected: probable next tokens, which only save steps; the engine may ignore them.
        excluded: ids that must not be drafted.
    """

    prompt: Prompt
    max_tokens: int
    readout: Readout | None = None
    gate: Gate | None = None
    resumed: Draft | None = None
    expected: tuple[int, ...] = ()
    excluded: tuple[int, ...] = ()


class TranslationEngine(Protocol):
    """Greedy continuation of a prompt with attention rows."""

    def draft(self, request: DraftRequest) -> Draft:
        """Continue the prompt of ``request`` greedily.

        With a ``readout``, ``Draft.rows`` contains one row per returned token; else it is ``None``.

        Raises:
            EngineError: the engine failed or returned fewer rows than tokens.
        """
