"""Measure how many concurrent streams with real-time audio a machine can serve."""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from tqdm import tqdm

from alignatt_agent.cascade.engines import Engines
from alignatt_agent.cascade.open_stream import chunks, open_stream
from alignatt_agent.cascade.runtime import Runtime
from alignatt_agent.config.languages import language
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.doctor.checks import Check
from alignatt_agent.evaluation.devset import load_devset
from alignatt_agent.types import SAMPLE_RATE, FloatArray

SECONDS = 30.0
"""Length of an excerpt, in seconds."""

Excerpt = tuple[FloatArray, str]
"""Audio as ``[samples]``, and the code of the target language."""


@dataclass
class Emitted:
    """Output of a stream."""

    units: list[tuple[str, ...]] = field(default_factory=list)  # by chunk, then by the stream's end
    lags: list[float] = field(default_factory=list)  # seconds per chunk; empty if not in real time


def examine(
    runtime: Runtime,
    resolved: Resolved,
    devset: Path,
    targets: Sequence[str],
    counts: Sequence[int],
) -> Iterator[Check]:
    """Translate excerpts in concurrent streams; yield a check for each number in ``counts``."""
    recordings = excerpts(devset, targets, max(counts), SECONDS)
    rows: list[dict[str, Any]] = []
    with closing(runtime):
        engines = runtime.load(resolved)
        progress = tqdm(recordings, "one by one", leave=False)
        alone = [speak(resolved, engines, excerpt) for excerpt in progress]
        for count in sorted(set(counts)):
            row = at_once(resolved, [engines] * count, recordings[:count], alone)
            rows.append(row)
            yield _check(row)
    most = knee(rows)
    chunk = f"95 % of the chunks of {resolved.config.chunk_ms} ms end before the next one arrives"
    fix = "raise chunk_ms, or run on a faster device"
    yield Check.judged("speakers", most > 0, f"this machine serves {most}: {chunk}", fix, "warn")


def _check(row: Mapping[str, Any]) -> Check:
    count = row["streams"]
    name = f"{count} streams"
    lag = f"lag {row['lag_p50_s']:.2f} s (p95 {row['lag_p95_s']:.2f} s)"
    summary = f"{row['identical']} of {count} emit the same output as a single stream; {lag}"
    # Streams without any unit are equal to each other, too.
    if row["identical"] < count or not row["units"]:
        fix = "run fewer streams: concurrent streams change the output. Report this result"
        return Check(name, "FAIL", summary, fix)
    return Check(name, "ok" if row["kept_up"] else "warn", summary)


def excerpts(devset: Path, targets: Sequence[str], count: int, seconds: float) -> list[Excerpt]:
    """Cut ``count`` excerpts of ``seconds`` s; cycle through the talks and through the targets."""
    length = int(seconds * SAMPLE_RATE)
    recordings: list[FloatArray] = []
    for talk in load_devset(devset, ()).talks:
        samples, _ = soundfile.read(talk.wav, dtype="float32")
        recordings.append(samples)
    cut: list[Excerpt] = []
    for number in range(count):
        samples = recordings[number % len(recordings)]
        # In each round through the talks, excerpts begin two thirds of an excerpt later.
        begin = number // len(recordings) * length * 2 // 3
        begin = min(begin, max(0, len(samples) - length))
        cut.append((samples[begin : begin + length], targets[number % len(targets)]))
    return cut


def at_once(
    resolved: Resolved,
    engines: Sequence[Engines],
    recordings: Sequence[Excerpt],
    alone: Sequence[Emitted] = (),
) -> dict[str, Any]:
    """Translate excerpts in real time, each on its item of ``engines``, with staggered starts.

    Returns the number of streams with the same output as ``alone``, the seconds of audio translated
    per second, the lag of emissions, and whether all streams kept up.
    """
    count = len(recordings)
    chunk_s = resolved.config.chunk_ms / 1000
    begin = time.perf_counter()
    # Real speakers do not start together, so the chunks of different streams arrive in turn.
    starts = [begin + chunk_s * place / count for place in range(count)]
    with ThreadPoolExecutor(count) as pool:
        streams = list(pool.map(partial(speak, resolved), engines, recordings, starts))
    seconds = time.perf_counter() - begin
    audio_s = sum(len(audio) for audio, _ in recordings) / SAMPLE_RATE
    identical = 0
    for single, concurrent in zip(alone, streams, strict=False):
        if single.units == concurrent.units:
            identical += 1
    unit_count = 0
    lags: list[float] = []
    for stream in streams:
        unit_count += sum(map(len, stream.units))
        lags += stream.lags
    lag_p50 = float(np.percentile(lags, 50))
    lag_p95 = float(np.percentile(lags, 95))
    return {
        "streams": count,
        "identical": identical,
        "units": unit_count,
        "audio_s": round(audio_s, 1),
        "seconds": round(seconds, 1),
        "audio_s_per_s": round(audio_s / seconds, 2),
        "lag_p50_s": round(lag_p50, 3),
        "lag_p95_s": round(lag_p95, 3),
        # A chunk that finishes before the next one arrives leaves no backlog.
        "kept_up": lag_p95 <= chunk_s,
    }


def knee(rows: Sequence[Mapping[str, Any]]) -> int:
    """Return the largest number of streams before the first that did not keep up, or 0."""
    most = 0
    for row in sorted(rows, key=lambda row: int(row["streams"])):
        if not row["kept_up"]:
            break
        most = int(row["streams"])
    return most


def speak(
    resolved: Resolved,
    engines: Engines,
    excerpt: Excerpt,
    start: float | None = None,
    context: str = "",
) -> Emitted:
    """Translate an excerpt in real time from ``start`` on, or without pauses if it is ``None``."""
    audio, target = excerpt
    source = language(resolved.config.source_language)
    stream = open_stream(resolved, engines, source, [language(target)], context)
    emitted = Emitted()
    samples = 0
    for chunk in chunks(resolved, audio):
        samples += len(chunk)
        if start is None:
            emitted.units.append(stream.step(chunk).only().units)
            continue
        # A microphone delivers a chunk when its last sample has been spoken.
        due = start + samples / SAMPLE_RATE
        early = due - time.perf_counter()
        if early > 0:
            time.sleep(early)
        emitted.units.append(stream.step(chunk).only().units)
        emitted.lags.append(time.perf_counter() - due)
    emitted.units.append(stream.finish().only().units)
    return emitted
