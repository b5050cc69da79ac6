"""Define the messages of the server's own protocol, with one class per ``type``.

Times are in seconds from the start of the talk.
"""

from collections.abc import Iterable
from itertools import islice, zip_longest
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter

from alignatt_agent.cascade.stream import StreamStep
from alignatt_agent.config.errors import Strict
from alignatt_agent.config.languages import Language
from alignatt_agent.serve.access import ClosingError, RefusedError
from alignatt_agent.text.sentence_starts import begins_sentence
from alignatt_agent.types import SAMPLE_RATE, GatedDraft, SpeechUpdate, Step, Word

T = TypeVar("T")
Maybe = Annotated[T | None, Field(exclude_if=lambda value: value is None)]
"""A field that is omitted if its value is ``None``."""


class Timed(NamedTuple):
    """A word as text to append, and the times at which it starts and ends."""

    text: str
    start: float
    end: float


class Unit(NamedTuple):
    """Translated text to append, times of its source words, and whether it begins a sentence."""

    text: str
    start: float
    end: float
    begins: bool


HeardWord = tuple[str, float, float, Literal["settled", "stable", "new"]]
"""A ``Timed`` word and its state: final, in two successive hypotheses, or new."""

Token = tuple[str, int | None, float | None]
"""A drafted token's text, source word at its attention peak, and attention to accessible words."""


class Message(Strict):
    """A message from the server."""

    # In JSON, numbers that are not finite become null; they must not end the talk.
    model_config = ConfigDict(allow_inf_nan=True)


class Start(Strict):
    """A speaker's ``start`` request; other wires convert their requests to this class."""

    # ``sampling_rate`` refuses a rate that is not finite with the code of other invalid rates.
    model_config = ConfigDict(allow_inf_nan=True)

    type: Literal["start"] = "start"
    targets: tuple[str, ...] = Field(max_length=16)  # the spoken language yields captions
    source: str | None = None  # code or name of the spoken language; default: as configured
    sample_rate: int | float = SAMPLE_RATE  # of the audio, in Hz
    detail: Literal["text", "words", "why"] = "text"  # see ``LEFT_OUT``
    room: str | None = None  # default: an unguessable name
    session: str | None = None  # key of a talk to resume
    new: bool = False  # begin a new talk in the same room
    # Start of the audio of that talk that the client has kept and will resend.
    kept_s: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    # End of the text that the client has. If the server has lost the talk in a restart and ``room``
    # is empty, the talk continues in that room from this time on.
    text_s: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    since: str | None = None  # ``id`` of the last message received in that talk
    live: bool = True  # process waiting audio in longer steps
    # Names and terms of the talk; default: as configured.
    context: str | None = Field(default=None, max_length=20_000)
    title: str = Field(default="", max_length=200)  # title of the talk, for viewers


class Event(Message):
    """A message that viewers also receive; its ``id`` is unique in the room."""

    id: Maybe[str] = None


class TargetLanguage(Strict):
    """The properties of a language that the pages need."""

    code: str
    name: str
    spaced: bool
    rtl: bool

    @classmethod
    def of(cls, target: Language) -> "TargetLanguage":
        """Return the properties of a language."""
        return cls(code=target.code, name=target.name, spaced=target.spaced, rtl=target.rtl)


class EarlierTalk(Strict):
    """A finished talk of a room, which ``/transcript?talk=...`` still offers after the next talk.

    ``talk`` is also the part before the dot in the ``id`` of the talk's messages.
    """

    talk: str
    title: str
    targets: tuple[str, ...]


class Ready(Event):
    """The start or continuation of a talk at ``audio_s``; only the speaker receives ``session``."""

    type: Literal["ready"] = "ready"
    protocol: Literal[2] = 2  # version of the messages; journals of other versions are ignored
    session: Maybe[str] = None
    room: str
    title: str
    resumed: bool
    audio_s: float
    source: str
    targets: tuple[str, ...]
    languages: tuple[TargetLanguage, ...]
    chunk_ms: int
    policy: str
    model: str
    # Start of the text that the server has, in a talk that continues although the server stored
    # nothing before its restart; omitted if the server has the whole text.
    text_s: Maybe[float] = None
    earlier: Maybe[tuple[EarlierTalk, ...]] = None  # finished talks of this room, oldest first


class Said(Event):
    """New text of a target, emitted ``audio_s`` seconds into the talk. It never changes."""

    type: Literal["said"] = "said"
    target: str
    audio_s: float
    units: tuple[Unit, ...]


class Gap(Event):
    """The start and end of a period in which speech was lost."""

    type: Literal["gap"] = "gap"
    start: float
    end: float


class Error(Event):
    """The reason why a talk ends or, if not ``final``, waits for the engines or the speaker."""

    type: Literal["error"] = "error"
    code: str
    message: str
    final: bool
    # With the code ``closing``: whether the server stores the talk and continues it when it is
    # started again, and the time up to which its text is complete.
    kept: Maybe[bool] = None
    audio_s: Maybe[float] = None


class End(Event):
    """The end of a talk."""

    type: Literal["end"] = "end"
    audio_s: float


class StepError(Message):
    """The failure of a step or of one ``target``; the step is repeated with the next audio."""

    type: Literal["error"] = "error"
    code: Literal["step"] = "step"
    message: str
    target: str | None
    final: Literal[False] = False


class Heard(Message):
    """The open sentence, the number of its accessible words, and the newly closed sentences."""

    type: Literal["heard"] = "heard"
    audio_s: float
    words: tuple[HeardWord, ...]
    accessible: int
    closed: tuple[tuple[Timed, ...], ...]


class Draft(Message):
    """A draft, the numbers of ``said`` and ``accepted`` tokens, and why the other tokens wait."""

    type: Literal["draft"] = "draft"
    target: str
    tokens: tuple[Token, ...]
    said: int
    accepted: int
    reason: str
    edge: int


class Status(Message):
    """The last message of a step, with the position and speed of the server."""

    type: Literal["status"] = "status"
    audio_s: float
    behind_s: float
    step_ms: int
    stages: dict[str, int]
    rtf: float
    viewers: Maybe[int] = None  # number of viewers of the room
    problems: Maybe[tuple[str, ...]] = None  # faults that do not stop the talk, one sentence each


class Tail(Message):
    """The state, including the open sentence, from which a talk is resumed."""

    type: Literal["tail"] = "tail"
    audio_s: float
    start_s: float  # start of the open sentence
    closed_s: float  # end of the last word before the open sentence
    said: dict[str, tuple[Unit, ...]]  # translation of the open sentence, by target

    @classmethod
    def at(cls, audio_s: float) -> "Tail":
        """Return the state of a talk without an open sentence."""
        return cls(audio_s=audio_s, start_s=audio_s, closed_s=audio_s, said={})


class Posted(Message):
    """The position up to which the captions of a talk were posted; only the journal has it."""

    type: Literal["posted"] = "posted"
    destination: str  # a hash, because the address contains a secret
    event: int  # number of an event of the talk, from 1
    units: int  # number of units of this event that were posted


class Key(Strict):
    """The first line of a journal file: the talk's room and the key that resumes the talk."""

    room: str
    session: str


LINE: TypeAdapter[Message] = TypeAdapter(
    Annotated[Ready | Said | Gap | Error | End | Tail | Posted, Field(discriminator="type")]
)
"""Parser of the messages that rooms and journals keep."""

LEFT_OUT: dict[str, tuple[type[Message], ...]] = {
    "text": (Heard, Draft),
    "words": (Draft,),
    "why": (),
}
"""Messages that clients do not receive, by detail level."""

ENGINE_FAILED = Error(
    code="engine",
    message="an engine failed and is being restarted; speech is kept in the meantime",
    final=False,
)
SPEAKER_LOST = Error(
    code="speaker",
    message="the speaker's connection was lost; the talk continues when the speaker reconnects",
    final=False,
)


def refusal(error: RefusedError) -> Error:
    """Return the last message of a stream that cannot continue."""
    if isinstance(error, ClosingError):
        return Error(
            code=error.code,
            message=str(error),
            final=True,
            kept=error.kept,
            audio_s=round(error.audio_s, 2),
        )
    return Error(code=error.code, message=str(error), final=True)


def of_step(step: StreamStep, offset_s: float, said: dict[str, str]) -> list[Message]:
    """Return the messages of a step; ``offset_s`` is the length of the talk before this stream.

    ``said`` maps targets to the emitted text of the open sentence. This function updates ``said``.
    """
    heard = _heard(step.heard, round(step.audio_s + offset_s, 2), offset_s)
    messages: list[Message] = [heard]
    for target, target_step in step.steps.items():
        if target_step.gated is not None:
            messages.append(_draft(target, target_step.gated))
        if target_step.units:
            messages.append(_said(target, target_step, offset_s, said))
    return messages


def text_of(units: Iterable[tuple[Any, ...]]) -> str:
    """Return the joined text of units or words."""
    return "".join(unit[0] for unit in units)


def _heard(heard: SpeechUpdate, audio_s: float, offset_s: float) -> Heard:
    live = heard.live
    words = []
    for place, timed in enumerate(_timed_words(live.words, offset_s)):
        words.append((*timed, _state(heard, place)))
    closed = [_timed_words(sentence, offset_s) for sentence in heard.sentences]
    return Heard(audio_s=audio_s, words=words, accessible=live.accessible, closed=closed)


def _state(heard: SpeechUpdate, place: int) -> str:
    """Return the state of a word of the open sentence, see ``HeardWord``."""
    if place < heard.settled:
        return "settled"
    if place < heard.stable:
        return "stable"
    return "new"


def _draft(target: str, gated: GatedDraft) -> Draft:
    decision = gated.decision
    shares = [round(float(share), 3) for share in decision.accessible_mass]
    # The policy may read fewer rows than there are tokens.
    rows = zip_longest(gated.tokens, gated.words, shares)
    return Draft(
        target=target,
        tokens=list(islice(rows, len(gated.tokens))),
        said=gated.emitted,
        accepted=decision.accepted,
        reason=decision.reason,
        edge=gated.edge,
    )


def _said(target: str, step: Step, offset_s: float, said: dict[str, str]) -> Said:
    units = []
    for text, spoken in zip(step.units, step.times, strict=True):
        before = said.get(target, "")
        begins = begins_sentence(before, text, target)
        said[target] = text if begins else before + text
        unit = Unit(
            text=text,
            start=round(spoken.start + offset_s, 2),
            end=round(spoken.end + offset_s, 2),
            begins=begins,
        )
        units.append(unit)
    return Said(target=target, audio_s=round(step.audio_s + offset_s, 2), units=units)


def _timed_words(words: Iterable[Word], offset_s: float) -> list[Timed]:
    return [_timed(word, offset_s) for word in words]


def _timed(word: Word, offset_s: float) -> Timed:
    return Timed(
        text=word.gap + word.text,
        start=round(word.start + offset_s, 2),
        end=round(word.end + offset_s, 2),
    )
