"""Results of a chunk: emitted units with times, and the trace of their computation."""

from collections.abc import Mapping
from dataclasses import dataclass

from alignatt_agent.types.drafts import GatedDraft
from alignatt_agent.types.words import SpeechUpdate


@dataclass(frozen=True, slots=True)
class SourceSpan:
    """Source time of a unit: the time of the words at the attention peaks of its tokens.

    ``interpolated``: there are no rows, so the time since the last units is divided equally.
    """

    start: float
    end: float
    interpolated: bool = False


@dataclass(frozen=True, slots=True)
class Emission:
    """Append-only output of one chunk: stability units, as text to append, and their times."""

    units: tuple[str, ...] = ()
    times: tuple[SourceSpan, ...] = ()

    def __add__(self, other: "Emission") -> "Emission":
        return Emission(self.units + other.units, self.times + other.times)


@dataclass(frozen=True, slots=True)
class Step:
    """The trace of one chunk.

    Attributes:
        audio_s: seconds of audio since the start of the stream.
        heard: the update of speech recognition.
        gated: the draft and the policy's decision; ``None`` if no draft was gated.
        units: emitted stability units, including units of an earlier failed chunk; each is text to
            append, with the space before it.
        accepted: number of emitted tokens.
        passes: number of forward passes for all drafts of the chunk.
        seconds: computation time of each stage (see ``stopwatch.STAGES``).
        times: source time of each unit.
    """

    audio_s: float
    heard: SpeechUpdate
    gated: GatedDraft | None
    units: tuple[str, ...]
    accepted: int
    passes: int
    seconds: Mapping[str, float]
    times: tuple[SourceSpan, ...] = ()
