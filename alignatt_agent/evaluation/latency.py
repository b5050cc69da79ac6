"""Measure the latency of segments and units, also in real time, and determine the latency regime.

Latency in real time includes the backlog that a viewer experiences: a chunk is processed only when
its audio has arrived and all earlier chunks are done. Simulstream's computation-aware delay is the
length of the audio so far plus the computation time of the current chunk. Therefore it does not
reveal that a system is slower than real time.
"""

import json
import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import linear_regression

import numpy as np
from omnisteval.data import Instance
from omnisteval.scoring import YAALScorer

from alignatt_agent.config.resources import read_lines
from alignatt_agent.evaluation.log import LoggedChunk, TalkLog
from alignatt_agent.evaluation.segments import Span

_SAME_S = 1e-6
"""Tolerance for rounding: scorers compute times in ms relative to the start of a segment."""


def read_instances(path: Path, unit: str) -> list[Instance]:
    """Read OmniSTEval's ``instances.resegmented.jsonl``: segments with their aligned output."""
    return [Instance.from_dict(json.loads(line), unit) for line in read_lines(path)]


def yaal_ms(instance: Instance, aware: bool = False) -> float | None:
    """Return LongYAAL of one segment in ms, or ``None`` if OmniSTEval skips the segment."""
    emissions = instance.emission_ca if aware else instance.emission_cu
    if not emissions:  # compute would raise an error
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

    Raises:
        ValueError: no unit was emitted, or the log does not contain the chunk of a unit.
    """
    if not times:
        times = {log.name: simulated_times(log.chunks) for log in logs}
    chunks = {log.name: log.chunks for log in logs}
    longest_silence_s, backlog_s = _silence_and_backlog(logs, times)
    ideal_s: list[float] = []
    lags_s: list[float] = []
    segment_means_s: list[float] = []
    for span, instance in zip(spans, instances, strict=True):
        delays_ms = instance.emission_cu or []
        elapsed_ms = instance.emission_ca or delays_ms
        end_ms = instance.time_to_recording_end or math.inf
        # 1 / gamma of LongYAAL: the pace of the longer one of output and reference.
        pace_s = span.duration_s / max(len(delays_ms), instance.reference_length, 1)
        counted: list[float] = []
        for place, (cu_ms, ca_ms) in enumerate(zip(delays_ms, elapsed_ms, strict=True)):
            emitted_at_s = span.offset_s + cu_ms / 1000
            chunk = _chunk_of(chunks[span.talk], emitted_at_s, (ca_ms - cu_ms) / 1000)
            unit_ideal_s = span.offset_s + place * pace_s
            lag_s = times[span.talk][chunk] - unit_ideal_s
            ideal_s.append(unit_ideal_s)
            lags_s.append(lag_s)
            # Like LongYAAL, stop at the first unit after the end of the recording.
            if cu_ms < end_ms and len(counted) == place:
                counted.append(lag_s)
        if counted:
            segment_means_s.append(float(np.mean(counted)))
    if not lags_s:
        raise ValueError("no unit was emitted")
    growth = 0.0
    if len(set(ideal_s)) > 1:  # a slope needs two different times
        growth = linear_regression(ideal_s, lags_s).slope
    figures = {
        "longyaal_ms": 1000 * np.mean(segment_means_s) if segment_means_s else np.nan,
        "mean_ms": 1000 * np.mean(lags_s),
        "p50_ms": 1000 * np.percentile(lags_s, 50),
        "p95_ms": 1000 * np.percentile(lags_s, 95),
        "p99_ms": 1000 * np.percentile(lags_s, 99),
        "longest_silence_s": longest_silence_s,
        "backlog_s": backlog_s,
        "growth_ms_per_min": 60_000 * growth,
    }
    return {name: round(float(value), 4) for name, value in figures.items()}


def _silence_and_backlog(
    logs: Sequence[TalkLog], times: Mapping[str, Sequence[float]]
) -> tuple[float, float]:
    """Return the longest time without output, and the longest wait of a chunk, in seconds."""
    silences_s: list[float] = []
    waits_s: list[float] = []
    for log in logs:
        done = times[log.name]
        last_output_s = 0.0
        for chunk, done_s in zip(log.chunks, done, strict=True):
            waits_s.append(done_s - chunk.computation_s - chunk.audio_s)
            if chunk.tokens:
                silences_s.append(done_s - last_output_s)
                last_output_s = done_s
        if done:
            silences_s.append(done[-1] - last_output_s)
    return max(silences_s, default=0.0), max(waits_s, default=0.0)


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
    # Outside all regimes: negative below the lowest or above the highest limit.
    return "none", min(longyaal_cu_ms, REGIMES["high"].highest_ms - longyaal_cu_ms)
