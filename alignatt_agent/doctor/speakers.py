"""Measure how many concurrent streams with real-time audio a machine can serve."""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle, islice, takewhile
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
    listed, found = excerpts(devset, targets, max(counts), SECONDS), []
    with closing(runtime):
        engines = runtime.load(resolved)
        alone = [speak(resolved, engines, one) for one in tqdm(listed, "one by one", leave=False)]
        for count in sorted(set(counts)):
            row = at_once(resolved, [engines] * count, listed[:count], alone)
            found.append(row)
            yield _check(row)
    most = knee(found)
    chunk = f"95 % of the chunks of {resolved.config.chunk_ms} ms end before the next one arrives"
    fix = "raise chunk_ms, or run on a faster device"
    yield Check.judged("speakers", most > 0, f"this machine serves {most}: {chunk}", fix, "warn")


def _check(row: Mapping[str, Any]) -> Check:
    count = row["streams"]
    name, lag = f"{count} streams", f"lag {row['lag_p50_s']:.2f} s (p95 {row['lag_p95_s']:.2f} s)"
    found = f"{row['identical']} of {count} emit the same output as a single stream; {lag}"
    if row["identical"] < count or not row["units"]:
        fix = "run fewer streams: concurrent streams change the output. Report this result"
        return Check(name, "FAIL", found, fix)
    return Check(name, "ok" if row["kept_up"] else "warn", found)


def excerpts(devset: Path, targets: Sequence[str], count: int, seconds: float) -> list[Excerpt]:
    """Cut ``count`` excerpts of ``seconds`` s; cycle through the talks and through the targets."""
    talks, frames = load_devset(devset, ()).talks, int(seconds * SAMPLE_RATE)
    listed = [soundfile.read(talk.wav, dtype="float32")[0] for talk in talks]
    found = []
    for number, (talk, target) in enumerate(islice(zip(cycle(listed), cycle(targets)), count)):
        begin = number // len(listed) * frames * 2 // 3
        begin = min(begin, max(0, len(talk) - frames))
        found.append((talk[begin : begin + frames], target))
    return found


def at_once(
    resolved: Resolved,
    engines: Sequence[Engines],
    listed: Sequence[Excerpt],
    alone: Sequence[Emitted] = (),
) -> dict[str, Any]:
    """Translate excerpts in real time, each on its item of ``engines``, with staggered starts.

    Returns the number of streams with the same output as ``alone``, the seconds of audio translated
    per second, the lag of emissions, and whether all streams kept up.
    """
    count, chunk_s, begin = len(listed), resolved.config.chunk_ms / 1000, time.perf_counter()
    starts = [begin + chunk_s * place / count for place in range(count)]
    with ThreadPoolExecutor(count) as pool:
        crowd = list(pool.map(partial(speak, resolved), engines, listed, starts))
    seconds = time.perf_counter() - begin
    audio_s = sum(len(audio) for audio, _ in listed) / SAMPLE_RATE
    pairs = zip(alone, crowd, strict=False)
    lags = [lag for stream in crowd for lag in stream.lags]
    p50, p95 = (float(value) for value in np.percentile(lags, [50, 95]))
    return {
        "streams": count,
        "identical": sum(one.units == other.units for one, other in pairs),
        "units": sum(len(units) for stream in crowd for units in stream.units),
        "audio_s": round(audio_s, 1),
        "seconds": round(seconds, 1),
        "audio_s_per_s": round(audio_s / seconds, 2),
        "lag_p50_s": round(p50, 3),
        "lag_p95_s": round(p95, 3),
        # A chunk that finishes before the next one arrives leaves no backlog.
        "kept_up": p95 <= chunk_s,
    }


def knee(rows: Sequence[Mapping[str, Any]]) -> int:
    """Return the largest number of streams before the first that did not keep up, or 0."""
    ordered = sorted(rows, key=lambda row: int(row["streams"]))
    kept = takewhile(lambda row: row["kept_up"], ordered)
    return max((int(row["streams"]) for row in kept), default=0)


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
    found, heard = Emitted(), 0
    for chunk in chunks(resolved, audio):
        heard += len(chunk)
        due = None if start is None else start + heard / SAMPLE_RATE
        if due is not None and (early := due - time.perf_counter()) > 0:
            time.sleep(early)
        found.units.append(stream.step(chunk).only().units)
        if due is not None:
            found.lags.append(time.perf_counter() - due)
    found.units.append(stream.finish().only().units)
    return found
