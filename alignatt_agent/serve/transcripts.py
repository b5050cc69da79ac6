"""Convert the text of a room to a file format."""

import json
from collections.abc import Collection, Iterable, Iterator

from alignatt_agent.config.languages import language
from alignatt_agent.live.cues import Said, layout
from alignatt_agent.live.outputs import json_line
from alignatt_agent.live.subtitle_formats import srt, vtt
from alignatt_agent.live.subtitles import spoken_cues
from alignatt_agent.serve.access import RefusedError
from alignatt_agent.serve.messages import Gap, Message
from alignatt_agent.serve.messages import Said as SaidMessage
from alignatt_agent.serve.rooms import Room
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


def transcript(room: Room, target: str, kind: str, talk: str = "") -> str:
    """Return the text of a target so far in one of ``FORMATS``; times are those of the speech.

    ``talk`` is the name of an earlier talk of the room; by default, the current talk is returned.
    """
    targets: Collection[str] = room.targets
    messages = room.messages(LATEST if kind == "json" else 0)
    if talk:
        targets, messages = room.talk(talk)
    if target not in targets:
        expected = ", ".join(sorted(targets))
        text = f"this talk has no text in {target[:20]!r}; expected one of {expected}"
        raise RefusedError("target", text, status=404)
    found = list(_said(messages, target))
    if not found:
        raise RefusedError("target", f"no text in {target[:20]!r} yet", status=404)
    units = [unit for unit, _ in found]
    starts = [k for k, (_, begins) in enumerate(found) if begins]
    begin = (starts[-2:] or [0])[0] if kind == "json" else 0
    text = "".join(unit.text for unit in units[begin:]).strip()
    if kind == "txt":
        return f"{text}\n"
    if kind == "json":
        return json.dumps({"room": room.name, "target": target, "text": text}, ensure_ascii=False)
    if kind == "jsonl":
        return "".join(json_line(target, unit) for unit in units)
    form = layout(language(target))
    cues = spoken_cues(units, form)
    return srt(cues, form.rtl) if kind == "srt" else vtt(cues, form.rtl)


def _said(messages: Iterable[Message], target: str) -> Iterator[tuple[Said, bool]]:
    """Yield units, each with a flag that is true if the unit begins a sentence."""
    for message in messages:
        if isinstance(message, Gap):
            yield Said(" […]", SourceSpan(message.start, message.end), message.end), True
        if isinstance(message, SaidMessage) and message.target == target:
            for text, start, end, begins in message.units:
                yield Said(text, SourceSpan(start, end), message.audio_s), begins
