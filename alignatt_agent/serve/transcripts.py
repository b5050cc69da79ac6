"""Convert the text of a room to a file format."""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from alignatt_agent.config.languages import language
from alignatt_agent.live.cues import Said, layout
from alignatt_agent.live.cues_from_units import spoken_cues
from alignatt_agent.live.outputs import json_line
from alignatt_agent.live.subtitle_formats import srt, vtt
from alignatt_agent.serve.access import RefusedError
from alignatt_agent.serve.messages import Gap, Message
from alignatt_agent.serve.messages import Said as SaidMessage
from alignatt_agent.serve.room import Room
from alignatt_agent.types import SourceSpan

FORMATS = {
    "srt": "application/x-subrip",
    "vtt": "text/vtt",
    "txt": "text/plain",
    "jsonl": "application/jsonl",
    "json": "application/json",  # the last two sentences
}
"""Transcript formats and their media types."""

LATEST = 200
"""Number of recent messages, in all languages, that are searched for the last two sentences."""

SENTENCES = 2
"""Number of sentences in the format ``json``."""

LOST_SPEECH = " […]"
"""Text that stands for speech that was not translated."""


class TranscriptUnit(NamedTuple):
    """A unit of a transcript, and whether it begins a sentence."""

    unit: Said
    begins: bool


def transcript(room: Room, target: str, form: str, talk: str = "") -> str:
    """Return the text of a target so far in one of ``FORMATS``; times are those of the speech.

    ``talk`` is the name of an earlier talk of the room; by default, the current talk is returned.

    Raises:
        RefusedError: the talk does not exist, or it has no text in the target language.
    """
    targets: Collection[str] = room.targets
    if talk:
        targets, messages = room.talk(talk)
    elif form == "json":
        messages = room.messages(LATEST)
    else:
        messages = room.messages()
    if target not in targets:
        expected = ", ".join(sorted(targets))
        text = f"this talk has no text in {target[:20]!r}; expected one of {expected}"
        raise RefusedError("target", text, status=404)
    transcript_units = list(_transcript_units(messages, target))
    if not transcript_units:
        raise RefusedError("target", f"no text in {target[:20]!r} yet", status=404)
    if form == "json":
        text = _text(transcript_units[_last_sentences(transcript_units) :])
        return json.dumps({"room": room.name, "target": target, "text": text}, ensure_ascii=False)
    if form == "txt":
        return f"{_text(transcript_units)}\n"
    units = [unit for unit, _ in transcript_units]
    if form == "jsonl":
        lines = [json_line(target, unit) for unit in units]
        return "".join(lines)
    cue_layout = layout(language(target))
    cues = spoken_cues(units, cue_layout)
    if form == "srt":
        return srt(cues, cue_layout.rtl)
    return vtt(cues, cue_layout.rtl)


def _text(transcript_units: Iterable[TranscriptUnit]) -> str:
    texts = [unit.text for unit, _ in transcript_units]
    return "".join(texts).strip()


def _last_sentences(transcript_units: Sequence[TranscriptUnit]) -> int:
    """Return the index of the first of the last ``SENTENCES`` sentences."""
    starts = [place for place, (_, begins) in enumerate(transcript_units) if begins]
    if not starts:
        return 0
    # With fewer sentences, all of them are returned.
    return starts[-SENTENCES:][0]


def _transcript_units(messages: Iterable[Message], target: str) -> Iterator[TranscriptUnit]:
    """Yield the units of a target; a gap in the speech is a sentence of its own."""
    for message in messages:
        if isinstance(message, Gap):
            span = SourceSpan(message.start, message.end)
            yield TranscriptUnit(Said(LOST_SPEECH, span, message.end), begins=True)
        if isinstance(message, SaidMessage) and message.target == target:
            for text, start, end, begins in message.units:
                unit = Said(text, SourceSpan(start, end), message.audio_s)
                yield TranscriptUnit(unit, begins)
