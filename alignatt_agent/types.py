"""The typed nouns that flow through the cascade (Figure 1 of the paper).

Times are absolute seconds from the start of the stream. Audio is mono float32 at 16 kHz.
Token positions count from the first token of the prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]

SAMPLE_RATE = 16_000
"""Sampling rate of every waveform inside the cascade, in Hz."""


class AlignAttError(Exception):
    """Root of our own errors: the message says what came, what was expected and the fix.

    Attributes:
        exit_status: of a command that ends with it; 2 says that nothing was started.
    """

    exit_status = 2


class EngineError(AlignAttError, RuntimeError):
    """An inference engine failed; the message names the model and the cause."""

    exit_status = 1


@dataclass(frozen=True, slots=True)
class Word:
    """One transcribed word with its punctuation attached, e.g. ``"model,"``."""

    text: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class SourceView:
    """What the translation side may read of the open utterance.

    Attributes:
        words: committed-but-unfinished words followed by the live tail.
        accessible: number of leading words the policy may rely on.
    """

    words: tuple[Word, ...]
    accessible: int


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's greedy continuation of a prompt with audio.

    Attributes:
        token_ids: new ids without the end-of-turn id.
        ended: whether the model ended its turn by itself.
        steps: forward passes that it took, one for each sampled token.
        requests: how often the engine was asked.
    """

    token_ids: tuple[int, ...]
    ended: bool
    steps: int = 0
    requests: int = 1


@dataclass(frozen=True, slots=True)
class Transcript:
    """What a recogniser heard.

    Attributes:
        text: what was said; ``None`` if no transcript can be believed.
        steps: forward passes that it took, one for each sampled token.
        requests: how often the engine was asked.
    """

    text: str | None
    steps: int = 0
    requests: int = 1


@dataclass(frozen=True, slots=True)
class Transcripts:
    """How many transcripts were made, and what they cost.

    Attributes:
        count: transcripts.
        requests: how often the engine was asked.
        steps: forward passes, one for each sampled token.
    """

    count: int = 0
    requests: int = 0
    steps: int = 0

    def __add__(self, more: Transcript) -> Transcripts:
        requests, steps = self.requests + more.requests, self.steps + more.steps
        return Transcripts(self.count + 1, requests, steps)


@dataclass(frozen=True, slots=True)
class Access:
    """When words of the live tail may be relied on.

    Attributes:
        hold_back_ms: so long after they were over.
        stable_only: only if two successive hypotheses agree on them.
    """

    hold_back_ms: float = 0.0
    stable_only: bool = False


@dataclass(frozen=True, slots=True)
class SpeechUpdate:
    """Result of one chunk on the speech side.

    Attributes:
        sentences: sentences closed by this chunk, oldest first; each is a whole utterance
            including words that earlier updates already showed in ``live``.
        live: the utterance that stays open.
        settled: leading words of ``live`` that are committed and will not be heard again.
        stable: leading words of ``live`` that two successive hypotheses agree on, settled ones
            included; what follows is new.
        transcripts: what the recogniser did; two updates that differ in it only are equal.
        over_s: for how long each word of ``live`` that is not settled has been over; less than 0
            for a word that goes on.
    """

    sentences: tuple[tuple[Word, ...], ...]
    live: SourceView
    settled: int = 0
    stable: int = 0
    transcripts: Transcripts = field(default=Transcripts(), compare=False)
    over_s: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Prompt:
    """Token ids of Eq. 1 up to the accepted translation, with the marked source span.

    Attributes:
        token_ids: system prompt, source, instruction and accepted translation.
        source_start: position of the first source token.
        token_word: word index of every source token, in order; its length is the span's length.
    """

    token_ids: tuple[int, ...]
    source_start: int
    token_word: tuple[int, ...]

    @property
    def source_end(self) -> int:
        """Position one past the last source token."""
        return self.source_start + len(self.token_word)


@dataclass(frozen=True, slots=True)
class AttentionRows:
    """Attention of each draft token over the prompt, per calibrated head (Eq. 2).

    Attributes:
        source: ``[draft tokens, heads, source tokens]``; a full-row softmax restricted to the
            source span, so a row sums to at most 1.
        prompt: ``[draft tokens, heads]``; mass on prompt tokens outside the source span.
        suffix: ``[draft tokens, heads]``; mass on draft tokens.
    """

    source: FloatArray
    prompt: FloatArray
    suffix: FloatArray


@dataclass(frozen=True, slots=True)
class Draft:
    """A greedy continuation of a prompt.

    Attributes:
        token_ids: drafted ids without the end-of-turn token.
        ended: whether the model closed the turn by itself, before the longest draft was full.
        rows: one row per drafted token; ``None`` when rows were not asked for.
        cut: whether the engine stopped because the gate rejects the last token; the model would
            have gone on.
        steps: forward passes that it took, one for each sampled token.
        replay_s: seconds that computing its rows took inside the engine; on a GPU those of the
            host, its kernels run on behind.
        probabilities: of the drafted tokens, where the readout asks for them.
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
    """What a policy without attention knows of a draft.

    Attributes:
        unit_ends: computes the ascending numbers of draft tokens at which stability units end;
            the last one is the length of the draft, whether its unit is complete or not.
        earlier: how the drafts of earlier sources of this utterance, latest first, go on after
            the same accepted translation, up to the first token that the gate rejected; empty
            ones contradict it.
        heard: accessible words of this utterance.
        written: counts the units of its accepted translation.
    """

    unit_ends: Callable[[], tuple[int, ...]] = tuple
    earlier: tuple[tuple[int, ...], ...] = ()
    heard: int = 0
    written: Callable[[], int] = int


NO_CONTEXT = DraftContext()


class StopReason(StrEnum):
    """Why a policy accepts no more of a draft: Eqs. 5-7 of the paper, or a rival's rule."""

    SOURCE_FRONTIER = "source-frontier"
    ARGMAX_MASS_WEAK = "argmax-mass-weak"
    PROVENANCE_WEAK = "provenance-weak"
    HELD_BACK = "held-back"
    DISAGREEMENT = "disagreement"
    UNSURE = "unsure"
    DRAFT_END = "draft-end"


@dataclass(frozen=True, slots=True)
class Decision:
    """Outcome of a policy on one draft.

    Attributes:
        accepted: number of leading draft tokens that may be emitted, before unit rounding.
        reason: a ``StopReason``, or a policy's own words: they are shown as they are.
        peaks: source-token argmax of each scanned row, the rejected one included.
        accessible_mass: Eq. 3 for each scanned row.
        closed: whether the gate rejected the last scanned token.
    """

    accepted: int
    reason: str
    peaks: tuple[int, ...] = ()
    accessible_mass: tuple[float, ...] = ()
    closed: bool = False


@dataclass(frozen=True, slots=True)
class SourceSpan:
    """When what a unit translates was spoken.

    Attributes:
        start: of the first source word that its tokens peak at.
        end: of the last one.
        interpolated: no attention rows told the words: the speech since the units before is
            spread over the new ones.
    """

    start: float
    end: float
    interpolated: bool = False


@dataclass(frozen=True, slots=True)
class Emission:
    """Append-only output of one chunk: stability units, ready for the harness, and their times."""

    units: tuple[str, ...] = ()
    times: tuple[SourceSpan, ...] = ()

    def __add__(self, other: Emission) -> Emission:
        return Emission(self.units + other.units, self.times + other.times)


@dataclass(frozen=True, slots=True)
class GatedDraft:
    """A draft for the open utterance and what the policy made of it.

    Attributes:
        accepted: text of the utterance's translation before this draft.
        tokens: text of each drafted token.
        words: source word at the attention peak of each token that the policy looked at; empty
            without rows.
        decision: what may be emitted and why no more.
        edge: how many leading source words an attention peak may lie on. With a negative margin
            an accessible word can be off limits.
        emitted: how many leading tokens of the draft are emitted by now, in whole units.
    """

    accepted: str
    tokens: tuple[str, ...]
    words: tuple[int, ...]
    decision: Decision
    edge: int
    emitted: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """The trace of one chunk: what was heard, drafted, decided and emitted, and how long it took.

    Attributes:
        audio_s: seconds of audio heard since the start of the stream.
        heard: what the chunk gave on the speech side.
        gated: the draft and its decision; ``None`` where nothing had to be decided again.
        units: stability units that were emitted, those of an earlier failed chunk included.
        accepted: tokens that were emitted.
        passes: forward passes that all drafts of the chunk took.
        seconds: time of each stage, see ``stopwatch.STAGES``.
        times: when what each unit translates was spoken.
    """

    audio_s: float
    heard: SpeechUpdate
    gated: GatedDraft | None
    units: tuple[str, ...]
    accepted: int
    passes: int
    seconds: Mapping[str, float]
    times: tuple[SourceSpan, ...] = ()


@dataclass(frozen=True, slots=True)
class AlignedItem:
    """A word as the forced aligner returned it; seconds from the start of the given audio."""

    text: str
    start: float
    end: float


class Recognizer(Protocol):
    """Speech recognition of a whole waveform."""

    def transcribe(
        self, audio: FloatArray, language: str, context: str = "", expected: str = ""
    ) -> Transcript:
        """Return the transcript of ``audio``, ``[samples]``.

        Args:
            audio: what was said.
            language: code of the spoken language.
            context: names and terms that may occur.
            expected: what the transcript probably begins with, as an earlier one does. It saves
                time and changes nothing; a recogniser may as well ignore it.
        """


class Aligner(Protocol):
    """Forced alignment of a waveform and its transcript."""

    def align(self, audio: FloatArray, text: str, language: str) -> list[AlignedItem]:
        """Return the words of ``text`` with times; counts may differ from ``text.split()``."""


@dataclass(frozen=True, slots=True)
class Readout:
    """Which attention rows a draft request returns.

    Attributes:
        heads: ``(layer, head)`` pairs, in the order of ``AttentionRows``' head axis.
        row: ``"predicting"`` reads the query that predicts a draft token (one position before
            it), ``"emitted"`` the query at the token itself (the paper's rows).
        probabilities: whether those of the tokens are returned, too; then nothing is verified.
    """

    heads: tuple[tuple[int, int], ...]
    row: Literal["predicting", "emitted"]
    probabilities: bool = False


@dataclass(frozen=True, slots=True)
class Gate:
    """A first-failure scan that an engine may run while it drafts.

    Attributes:
        settings: keyword arguments of ``policy.AlignAtt``.
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

        ``Draft.rows`` holds one row per returned token when ``readout`` is given, else ``None``.

        Args:
            prompt: what to continue.
            max_tokens: longest draft, tokens of ``resumed`` included.
            readout: attention rows to return.
            gate: permission to stop at the first token that this gate rejects. That token is the
                last one returned, with its row, and the draft is marked ``cut``. An engine may
                as well ignore it.
            resumed: an earlier draft of the same prompt, with the rows of the same readout, to go
                on from; it is the beginning of the result.
            expected: how the draft probably goes on after that, as an earlier one did. It saves
                steps and changes nothing; an engine may as well ignore it.

        Raises:
            EngineError: the engine failed or returned fewer rows than tokens.
        """
