"""Continue a talk in a new stream, and update the state from which it can be continued."""

import asyncio
from collections.abc import Sequence

from alignatt_agent.cascade.stream import Stream
from alignatt_agent.serve.messages import (
    Error,
    Gap,
    Heard,
    Message,
    Said,
    Status,
    StepError,
    Tail,
    text_of,
)
from alignatt_agent.serve.remote import RemoteStream, run

ONSET_S = 0.3
"""Seconds of audio to recognize again before the first open word, at most half of the pause."""

SILENT_S = 5.0
"""Maximum number of seconds of audio to recognize again if it contains no words."""

OFFSET_S = 0.1
"""Seconds of audio after the last closed word that are not recognized again."""


async def resume(
    stream: Stream | RemoteStream, tail: Tail, kept_s: float | None
) -> tuple[Tail, list[Gap]]:
    """Continue an open sentence in a new stream if the client kept its audio (from ``kept_s`` on).

    Returns the initial state of the stream and the gap, if any.
    """
    if kept_s is None or kept_s > tail.start_s:
        # Without the audio, nobody can translate the rest of the open sentence.
        begin_s = max(tail.audio_s, kept_s or 0.0)
        gaps = []
        if begin_s > tail.start_s:
            gaps.append(Gap(start=round(tail.start_s, 2), end=round(begin_s, 2)))
        return Tail.at(begin_s), gaps

    def remember(local_stream: Stream) -> None:
        for code in tail.said.keys() & local_stream.targets.keys():
            translation = text_of(tail.said[code]).strip()
            local_stream.targets[code].remember((), translation)

    await asyncio.to_thread(run, stream, remember)
    return tail, []


def state_after(tail: Tail, messages: Sequence[Message]) -> Tail:
    """Return the state after the messages of a step.

    A failed step closes no sentence, because the next step translates its sentences again.
    """
    audio_s = tail.audio_s
    start_s = tail.start_s
    closed_s = tail.closed_s
    said = dict(tail.said)
    failed = any(isinstance(message, Error | StepError) for message in messages)
    for message in messages:
        if isinstance(message, Heard | Said | Status):
            audio_s = message.audio_s
        if isinstance(message, Said):
            said[message.target] = (*said.get(message.target, ()), *message.units)
        if isinstance(message, Heard):
            for sentence in message.closed:
                closed_s = max(closed_s, sentence[-1].end)
            if not failed:
                start_s = _open_start(message, start_s, closed_s)
    for code, units in said.items():
        # A unit whose source words have their middle before the open sentence is not part of it.
        said[code] = tuple([unit for unit in units if unit.start + unit.end >= 2 * start_s])
    return Tail(audio_s=audio_s, start_s=start_s, closed_s=closed_s, said=said)


def _open_start(heard: Heard, start_s: float, closed_s: float) -> float:
    """Return the time from which audio is recognized again after a step."""
    if not heard.words:
        after_closed_s = min(closed_s + OFFSET_S, heard.audio_s)
        return max(start_s, after_closed_s, heard.audio_s - SILENT_S)
    _, first_s, _, _ = heard.words[0]
    # The middle of the pause keeps the last closed word out.
    return max((closed_s + first_s) / 2, first_s - ONSET_S)
