"""What was heard of a talk and not yet translated to the end of a sentence: where it is resumed.

The state is a message of the journal: ``audio_s`` of the talk so far, ``start_s`` of the open
sentence, ``closed_s`` of the last word before it, and the units that were ``said`` of it by target.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from alignatt_agent.cascade.stream import Stream
from alignatt_agent.serve.remote import RemoteStream
from alignatt_agent.serve.rooms import Message, nothing

ONSET_S = 0.3
"""Audio in front of the first open word that is recognized again, at most half of the pause."""

SILENT_S = 5.0
"""Audio without words after which none of it is recognized again; the first words take a while."""


async def resume(
    talk: Stream | RemoteStream, tail: Message, kept_s: float | None
) -> tuple[Message, list[Message]]:
    """Continue an open sentence in a new stream, if the client sends its audio from ``kept_s`` on.

    Returns the state to begin with, and the gap if there is one.
    """
    start_s, begin_s = tail["start_s"], max(tail["audio_s"], kept_s or 0.0)
    if kept_s is None or kept_s > start_s:
        gap = {"type": "gap", "start": round(start_s, 2), "end": round(begin_s, 2)}
        return nothing(begin_s), [gap] if begin_s > start_s else []
    for code in tail["said"].keys() & talk.targets.keys():
        text = text_of(tail["said"][code]).strip()
        await asyncio.to_thread(talk.targets[code].remember, (), text)
    return tail, []


def text_of(units: Sequence[Any]) -> str:
    """Return the text of the units of messages, as text to append."""
    return "".join(unit for unit, *_ in units)


def after(tail: Message, found: Sequence[Message]) -> Message:
    """Return the state after the messages of a step.

    A step that failed closes nothing: its sentences are translated with the next one.
    """
    failed = any(message["type"] == "error" for message in found)
    audio_s: float = tail["audio_s"]
    start_s, closed_s = tail["start_s"], tail["closed_s"]
    said = dict(tail["said"])
    for message in found:
        audio_s = message.get("audio_s", audio_s)
        if message["type"] == "said":
            said[message["target"]] = [*said.get(message["target"], ()), *message["units"]]
        if message["type"] == "heard":
            closed_s = max([closed_s, *(sentence[-1][2] for sentence in message["closed"])])
            begin_s = max(start_s, min(closed_s + 0.1, audio_s), audio_s - SILENT_S)
            if message["words"]:
                first = message["words"][0][1]
                begin_s = max((closed_s + first) / 2, first - ONSET_S)
            start_s = start_s if failed else begin_s
    for code, units in said.items():
        said[code] = [unit for unit in units if unit[1] + unit[2] >= 2 * start_s]
    return nothing(audio_s) | {"start_s": start_s, "closed_s": closed_s, "said": said}
