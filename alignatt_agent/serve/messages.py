"""The messages about a step of the cascade.

Times are seconds from the start of the talk. With ``detail`` ``text`` a client gets the translation
and the state of the stream, with ``words`` also the recognized words, with ``why`` also the drafts
and the reasons why they wait.
"""

from typing import Literal

from alignatt_agent.cascade.stream import StreamStep
from alignatt_agent.live.sentence_starts import begins_sentence
from alignatt_agent.serve.access import RefusedError, public
from alignatt_agent.serve.rooms import Message
from alignatt_agent.types import GatedDraft, SpeechUpdate, Step, Word

Detail = Literal["text", "words", "why"]

DETAIL: dict[Detail, frozenset[str]] = {
    "text": frozenset({"ready", "said", "status", "error", "end"}),
    "words": frozenset({"ready", "said", "status", "error", "end", "heard"}),
    "why": frozenset({"ready", "said", "status", "error", "end", "heard", "draft"}),
}
"""Types of messages of each detail."""


def of_step(step: StreamStep, offset_s: float, said: dict[str, str]) -> list[Message]:
    """Return the messages of a step; ``offset_s`` is the length of the talk before this stream.

    ``said`` is what was said of the open sentence by target, and is updated.
    """
    found = [_heard(step.heard, round(step.audio_s + offset_s, 2), offset_s)]
    for target, own in step.steps.items():
        if own.gated is not None:
            found.append(_draft(target, own.gated))
        if own.units:
            found.append(_said(target, own, offset_s, said))
    return found


def warning(error: Exception, target: str | None) -> Message:
    """Return the message of a step that failed and is tried again with the next audio."""
    message = f"{public(str(error))}; it is tried again"
    return {"type": "error", "code": "step", "message": message, "target": target, "final": False}


INTERRUPTIONS = {
    "engine": "an engine failed and is started again; what is said meanwhile is kept",
    "speaker": "the speaker's connection was lost; the talk goes on when it is back",
}


def interrupted(code: str = "engine") -> Message:
    """Return the message of a talk that waits for its engines or its speaker."""
    return {"type": "error", "code": code, "message": INTERRUPTIONS[code], "final": False}


def refusal(error: RefusedError) -> Message:
    """Return the message of a stream that cannot go on."""
    return {"type": "error", "code": error.code, "message": str(error), "final": True}


def for_viewers(message: Message) -> bool:
    """Whether viewers get a message; of errors those that concern them."""
    known = message["type"] in ("ready", "said", "gap", "end") or message.get("code") == "engine"
    return known or bool(message.get("final"))


def _heard(heard: SpeechUpdate, audio_s: float, offset_s: float) -> Message:
    live = heard.live
    words = [
        [*_timed(word, offset_s), _state(place, heard)] for place, word in enumerate(live.words)
    ]
    return {
        "type": "heard",
        "audio_s": audio_s,
        "words": words,
        "accessible": live.accessible,
        "closed": [[_timed(word, offset_s) for word in words] for words in heard.sentences],
    }


def _state(place: int, heard: SpeechUpdate) -> str:
    if place < heard.settled:
        return "settled"
    return "stable" if place < heard.stable else "new"


def _draft(target: str, gated: GatedDraft) -> Message:
    decision = gated.decision
    mass = decision.accessible_mass
    return {
        "type": "draft",
        "target": target,
        "tokens": [
            [
                text,
                gated.words[k] if k < len(gated.words) else None,
                round(float(mass[k]), 3) if k < len(mass) else None,
            ]
            for k, text in enumerate(gated.tokens)
        ],
        "said": gated.emitted,
        "accepted": decision.accepted,
        "reason": decision.reason,
        "edge": gated.edge,
    }


def _said(target: str, step: Step, offset_s: float, said: dict[str, str]) -> Message:
    units = []
    for unit, spoken in zip(step.units, step.times, strict=True):
        before = said.get(target, "")
        begins = begins_sentence(before, unit, target)
        said[target] = unit if begins else before + unit
        times = round(spoken.start + offset_s, 2), round(spoken.end + offset_s, 2)
        units.append([unit, *times, begins])
    audio_s = round(step.audio_s + offset_s, 2)
    return {"type": "said", "target": target, "audio_s": audio_s, "units": units}


def _timed(word: Word, offset_s: float) -> list[str | float]:
    return [word.gap + word.text, round(word.start + offset_s, 2), round(word.end + offset_s, 2)]
