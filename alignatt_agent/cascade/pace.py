"""Measure how long this machine needs for a second of speech, before a user waits for it."""

import time

import soundfile

from alignatt_agent.cascade.engines import Engines
from alignatt_agent.cascade.open_stream import chunks, open_stream
from alignatt_agent.config.languages import language
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.config.resources import find_path
from alignatt_agent.machine import processor
from alignatt_agent.types import SAMPLE_RATE

SAMPLE = "micro_models/talks/talk-a.flac"
"""A recording that is part of the package."""

_BEFORE_S = 4.0
"""Seconds of speech before the measured chunks, so that a sentence is open."""

_MEASURED_S = 2.0
"""Seconds of speech whose chunks are measured, at least one chunk."""


def seconds_per_second(resolved: Resolved, engines: Engines, target: str) -> float:
    """Return the time that translating a second of live speech into ``target`` takes, in seconds.

    A few chunks of an embedded recording are translated as in a live stream.
    """
    audio, _ = soundfile.read(find_path(SAMPLE), dtype="float32")
    begin = int(_BEFORE_S * SAMPLE_RATE)
    chunk_length = SAMPLE_RATE * resolved.config.chunk_ms // 1000
    length = max(int(_MEASURED_S * SAMPLE_RATE), chunk_length)
    source = language(resolved.config.source_language)
    stream = open_stream(resolved, engines, source, [language(target)])
    stream.step(audio[:begin])
    start = time.perf_counter()
    for chunk in chunks(resolved, audio[begin : begin + length]):
        stream.step(chunk)
    elapsed = time.perf_counter() - start
    stream.finish()
    return elapsed * SAMPLE_RATE / length


def describe(pace: float, chunk_ms: int) -> str:
    """Return a line on the pace of one target; above 1, the line names the consequence and fixes.

    ``pace`` is the result of ``seconds_per_second``.
    """
    machine = f"{processor.cores()} cores, {processor.instruction_set()}"
    line = f"a second of speech takes about {pace:.1f} s for one target ({machine})"
    if pace <= 1:
        return line
    return (
        f"{line}: 10 minutes of a recording take {10 * pace:.0f} minutes, and live output falls "
        f"behind by {60 * (pace - 1):.0f} s every minute. Use longer chunks (`--set "
        f"chunk_ms={2 * chunk_ms}`), a configuration for high latency such as laptop-high, and one "
        "target; `alignatt demo` shows a live translation with small embedded models"
    )
