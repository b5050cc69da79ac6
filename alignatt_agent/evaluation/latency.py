"""Measure the latency of segments and units, also in real time, and determine the latency regime.

Latency in real time includes the backlog that a viewer experiences: a chunk is processed only when
its audio has arrived and all earlier chunks are done. Simulstream's computation-aware delay is the
length of the audio so far plus the computation time of the current chunk. Therefore it does not
reveal that a system is slower than real time.
"""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import linear_regression

import numpy as np
from omnisteval.data import Instance
from omnisteval.scoring import YAALScorer

from alignatt_agent.config.resources import read_lines
from alignatt_agent.evaluation.devset import Span
from alignatt_agent.evaluation.log import LoggedChunk, TalkLog

_SAME_S = 1e-6
"""Tolerance for rounding: scorers compute times in ms relative to the start of a segment."""


def read_instances(path: Path, unit: str) -> list[Instance]:
    """Read OmniSTEval's ``instances.resegmented.jsonl``: segments with their aligned output."""
    return [Instance.from_dict(json.loads(line), unit) for line in read_lines(path)]


def yaal_ms(instance: Instance, aware: bool = False) -> float | None:
    """Return LongYAAL of one segment in ms, or ``None`` if OmniSTEval skips the segment."""
    if not (instance.emission_ca if aware else instance.emission_cu):
        return None
    value: float | None = YAALScorer(aware, is_longform=True).compute(instance)
    return value


def simulated_times(chunks: Sequence[LoggedChunk]) -> list[float]:
    """Simulate the completion time of each chunk, in seconds from the start of the talk."""
    done: list[float] = []
    free = 0.0
    for chunk in chunks:
        free = max(chunk.audio_s, free) + chunk.computation_s
        done.append(free)
    return done


def recorded_times(path: Path) -> dict[str, list[float]]:
    """Read the completion times of each talk's chunks from the ``paced.jsonl`` of a paced run."""
    times: dict[str, list[float]] = {}
    for text in read_lines(path):
        line = json.loads(text)
        times.setdefault(line["talk"], []).append(line["done_s"])
    return times


def paced_latency(
    logs: Sequence[TalkLog],
    spans: Sequence[Span],
    instances: Sequence[Instance],
    times: Mapping[str, Sequence[float]] | None = None,
) -> dict[str, float]:
    """Measure the real-time lag of every emitted unit (a word, or a character in Chinese).

    As in LongYAAL, an ideal system emits unit i at i/gamma after the start of its segment. The lag
    is the time from this ideal emission to the actual one. ``times`` contains the completion times
    of each talk's chunks; by default, they are simulated. ``longyaal_ms`` is an average like
    LongYAAL CU, which ignores units after the end of the recording. ``backlog_s`` is the longest
    time that a chunk waits for earlier chunks. ``growth_ms_per_min`` is the lag's growth per minute
    of speech.
    """
    times = times or {log.name: simulated_times(log.chunks) for log in logs}
    chunks = {log.name: log.chunks for log in logs}
    silences: list[float] = []
    waits: list[float] = []
    for log in logs:
        done = times[log.name]
        pairs = list(zip(log.chunks, done, strict=True))
        emitted = [time for chunk, time in pairs if chunk.tokens]
        silences += [b - a for a, b in pairwise([0.0, *emitted, *done[-1:]])]
        waits += [time - chunk.computation_s - chunk.audio_s for chunk, time in pairs]
    ideal: list[float] = []
    lags: list[float] = []
    means = []
    for span, instance in zip(spans, instances, strict=True):
        cu, end_ms = instance.emission_cu or [], instance.time_to_recording_end or float("inf")
        pace_s = span.duration_s / max(len(cu), instance.reference_length, 1)
        counted: list[float] = []
        for place, (cu_ms, ca_ms) in enumerate(zip(cu, instance.emission_ca or cu, strict=True)):
            at_s, ideal_s = span.offset_s + cu_ms / 1000, span.offset_s + place * pace_s
            chunk = _chunk_of(chunks[span.talk], at_s, (ca_ms - cu_ms) / 1000)
            ideal.append(ideal_s)
            lags.append(times[span.talk][chunk] - ideal_s)
            if cu_ms < end_ms and len(counted) == place:
                counted.append(lags[-1])
        if counted:
            means.append(np.mean(counted))
    if not lags:
        raise ValueError("no unit was emitted")
    growth = linear_regression(ideal, lags).slope if len(set(ideal)) > 1 else 0.0
    found = {
        "longyaal_ms": 1000 * np.mean(means) if means else np.nan,
        "mean_ms": 1000 * np.mean(lags),
        **{f"p{q}_ms": 1000 * np.percentile(lags, q) for q in (50, 95, 99)},
        "longest_silence_s": max(silences, default=0.0),
        "backlog_s": max(waits, default=0.0),
        "growth_ms_per_min": 60_000 * growth,
    }
    return {name: round(float(value), 4) for name, value in found.items()}


def _chunk_of(chunks: Sequence[LoggedChunk], heard_s: float, spent_s: float) -> int:
    """From a unit's official delay and computation time, find the chunk that emitted the unit."""
    first = bisect_left(chunks, heard_s - _SAME_S, key=lambda chunk: chunk.audio_s)
    last = bisect_right(chunks, heard_s + _SAME_S, key=lambda chunk: chunk.audio_s)
    if first == last:
        raise ValueError(f"no chunk ends at {heard_s:.4f} s")
    # The last chunk of a stream may repeat the audio position of the previous chunk.
    return min(range(first, last), key=lambda k: abs(chunks[k].computation_s - spent_s))


@dataclass(frozen=True, slots=True)
class Regime:
    """A latency regime of the IWSLT task: a closed range of computation-unaware LongYAAL."""

    name: str
    lowest_ms: float
    highest_ms: float

    def distance_ms(self, longyaal_cu_ms: float) -> float:
        """Return the distance to the nearer limit in ms; outside the regime, it is negative."""
        return min(self.highest_ms - longyaal_cu_ms, longyaal_cu_ms - self.lowest_ms)

    def __str__(self) -> str:
        return f"{self.name} ({self.lowest_ms / 1000:g}-{self.highest_ms / 1000:g} s)"


REGIMES = {"low": Regime("low", 0.0, 2000.0), "high": Regime("high", 2000.0, 4000.0)}
"""Latency regimes of IWSLT 2026 for all directions; they apply to the dev-set log."""


def regime_of(longyaal_cu_ms: float) -> tuple[str, float]:
    """Return the regime of a latency, or ``"none"``, and the distance to its upper limit in ms."""
    for name, regime in REGIMES.items():
        if regime.distance_ms(longyaal_cu_ms) >= 0:
            return name, regime.highest_ms - longyaal_cu_ms
    return "none", min(longyaal_cu_ms, REGIMES["high"].highest_ms - longyaal_cu_ms)
