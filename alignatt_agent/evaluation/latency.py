"""Latency: of segments and single units, by the clock, and the regimes of the shared task.

By the clock is what a listener experiences, backlog included. Audio arrives in real time; a chunk
is processed when it has arrived and the chunks before it are done; what it emits is heard when it
is done. Simulstream's computation-aware delay is the audio so far plus the computation of the same
chunk, so a system slower than real time is not punished there.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import linear_regression
from typing import Any

import numpy as np
from omnisteval.data import Instance
from omnisteval.scoring import YAALScorer

from alignatt_agent.evaluation.devset import Span
from alignatt_agent.evaluation.log import Step, TalkLog

_SAME_S = 1e-6
"""Scorers compute with milliseconds from the start of a segment, which rounds."""


def read_instances(path: Path, unit: str, segments: int | None = None) -> list[Instance]:
    """Read ``instances.resegmented.jsonl``: reference segments with what was aligned to them.

    Args:
        path: OmniSTEval's file.
        unit: ``word`` or ``char``.
        segments: how many the dev set has.

    Raises:
        ValueError: it belongs to another segmentation.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    if segments is not None and len(lines) != segments:
        raise ValueError(f"{path} has {len(lines)} segments, the dev set {segments}")
    return [Instance.from_dict(json.loads(line), unit) for line in lines]


def yaal_ms(instance: Instance, aware: bool = False) -> float | None:
    """LongYAAL of one segment, computation-aware or not; ``None`` where OmniSTEval skips it."""
    if not (instance.emission_ca if aware else instance.emission_cu):
        return None
    value: float | None = YAALScorer(aware, is_longform=True).compute(instance)
    return value


@dataclass(frozen=True, slots=True)
class Unit:
    """One emitted unit (a word, or a character of Chinese).

    Attributes:
        talk: stem of its recording.
        segment: index of its reference segment.
        ideal_s: when an ideal interpreter would have said it: the start of the segment, plus the
            share of it that goes before (LongYAAL's i/gamma); seconds from the start.
        cu_s: audio heard when it was emitted.
        ca_s: the same plus the computation of its chunk.
        counted: whether LongYAAL CU counts it; it leaves out what comes after the recording.
    """

    talk: str
    segment: int
    ideal_s: float
    cu_s: float
    ca_s: float
    counted: bool


def emitted_units(spans: Sequence[Span], instances: Sequence[Instance]) -> list[Unit]:
    """Return the emitted units of all segments in order."""
    units: list[Unit] = []
    for index, (span, instance) in enumerate(zip(spans, instances, strict=True)):
        cu = instance.emission_cu or []
        pace_s = span.duration_s / max(len(cu), instance.reference_length, 1)
        counted = True
        for place, (cu_ms, ca_ms) in enumerate(zip(cu, instance.emission_ca or cu, strict=True)):
            counted = counted and cu_ms < (instance.time_to_recording_end or float("inf"))
            start = span.offset_s
            times = (start + place * pace_s, start + cu_ms / 1000, start + ca_ms / 1000)
            units.append(Unit(span.talk, index, *times, counted))
    return units


def schedule(steps: Sequence[Step]) -> list[float]:
    """Return when each chunk is done, in seconds after the speech began, from its compute time."""
    done: list[float] = []
    free = 0.0
    for step in steps:
        free = max(step.audio_s, free) + step.computation_s
        done.append(free)
    return done


def read_times(path: Path) -> dict[str, list[float]]:
    """Read the clock of a real paced run (``paced.jsonl``): when each chunk of a talk was done."""
    times: dict[str, list[float]] = {}
    for text in path.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        times.setdefault(line["talk"], []).append(line["done_s"])
    return times


def paced_latency(
    logs: Sequence[TalkLog],
    units: Sequence[Unit],
    times: Mapping[str, Sequence[float]] | None = None,
) -> dict[str, float]:
    """Measure the ear-voice lag of every emitted unit by the clock.

    The lag of a unit is the time between the moment at which an ideal interpreter would have said
    it and the moment at which it was there: LongYAAL's lag of one unit, averaged as LongYAAL does,
    and pooled over all units, those after the end of a recording included.

    Args:
        logs: Simulstream's log.
        units: the scored units, in order.
        times: for each talk and chunk, when it was done; by default simulated.

    Returns:
        ``longyaal_ms``, over the units that LongYAAL CU counts; mean and percentiles of all lags;
        ``longest_silence_s`` without an emission, from the first sample to the end; ``backlog_s``,
        the longest time by which a chunk waited for the ones before it; ``growth_ms_per_min``, how
        much the lag grows with every minute of speech.

    Raises:
        ValueError: the clock and the log disagree, or there is no unit.
    """
    if not units:
        raise ValueError("no unit was emitted")
    times = times or {log.name: schedule(log.steps) for log in logs}
    by_name = {log.name: log for log in logs}
    for name, log in by_name.items():
        if len(times[name]) != len(log.steps):
            raise ValueError(f"{name}: {len(times[name])} times for {len(log.steps)} chunks")
    lags = [times[u.talk][_chunk_of(u, by_name[u.talk].steps)] - u.ideal_s for u in units]
    segments: dict[int, list[float]] = {}
    for unit, lag in zip(units, lags, strict=True):
        if unit.counted:
            segments.setdefault(unit.segment, []).append(lag)
    means = [np.mean(values) for values in segments.values()]
    found = {
        "longyaal_ms": 1000 * np.mean(means) if means else np.nan,
        "mean_ms": 1000 * np.mean(lags),
        **{f"p{q}_ms": 1000 * np.percentile(lags, q) for q in (50, 95, 99)},
        "longest_silence_s": max(_silence(log, times[log.name]) for log in logs),
        "backlog_s": max(_backlog(log, times[log.name]) for log in logs),
        "growth_ms_per_min": 60_000 * _slope([unit.ideal_s for unit in units], lags),
    }
    return {name: round(float(value), 4) for name, value in found.items()}


def paced_report(
    logs: Sequence[TalkLog], units: Sequence[Unit], clock: Path | None
) -> dict[str, Any]:
    """Return the paced figures of a run, and with a real clock how well the simulation agrees."""
    virtual = paced_latency(logs, units)
    if clock is None:
        return {"clock": "virtual", **virtual}
    real = paced_latency(logs, units, read_times(clock))
    differs = abs(virtual["mean_ms"] - real["mean_ms"]) / max(abs(real["mean_ms"]), 1e-9)
    return {"clock": "real", **real, "virtual": virtual, "virtual_differs": round(differs, 4)}


def _chunk_of(unit: Unit, steps: Sequence[Step]) -> int:
    """Find the chunk that emitted a unit by its official delays."""
    first = bisect_left(steps, unit.cu_s - _SAME_S, key=lambda step: step.audio_s)
    last = bisect_right(steps, unit.cu_s + _SAME_S, key=lambda step: step.audio_s)
    if first == last:
        raise ValueError(f"{unit.talk}: no chunk ends at {unit.cu_s:.4f} s")
    # The end of a stream may repeat the audio time of the chunk before it.
    wait = unit.ca_s - unit.cu_s
    return min(range(first, last), key=lambda k: abs(steps[k].computation_s - wait))


def _silence(log: TalkLog, done: Sequence[float]) -> float:
    spoken = [time for step, time in zip(log.steps, done, strict=True) if step.tokens]
    return max((b - a for a, b in pairwise([0.0, *spoken, *done[-1:]])), default=0.0)


def _backlog(log: TalkLog, done: Sequence[float]) -> float:
    pairs = zip(log.steps, done, strict=True)
    return max((time - step.computation_s - step.audio_s for step, time in pairs), default=0.0)


def _slope(x: Sequence[float], y: Sequence[float]) -> float:
    return linear_regression(x, y).slope if len(set(x)) > 1 else 0.0


@dataclass(frozen=True, slots=True)
class Regime:
    """A range of computation-unaware LongYAAL in the IWSLT simultaneous task.

    Attributes:
        name: ``"low"`` or ``"high"``.
        lowest_ms: lower end.
        highest_ms: upper end, which still belongs to it.
    """

    name: str
    lowest_ms: float
    highest_ms: float

    def margin_ms(self, longyaal_cu_ms: float) -> float:
        """Distance to the nearer end; negative outside the regime."""
        return min(self.highest_ms - longyaal_cu_ms, longyaal_cu_ms - self.lowest_ms)

    def __str__(self) -> str:
        return f"{self.name} ({self.lowest_ms / 1000:g}-{self.highest_ms / 1000:g} s)"


LOW, HIGH = Regime("low", 0.0, 2000.0), Regime("high", 2000.0, 4000.0)

REGIMES = {regime.name: regime for regime in (LOW, HIGH)}
"""IWSLT 2026: shared by all directions, decided on dev-set logs."""


def regime_of(longyaal_cu_ms: float) -> Regime | None:
    """Return the regime of a latency; ``None`` when it is in none."""
    inside = (item for item in REGIMES.values() if item.margin_ms(longyaal_cu_ms) >= 0)
    return next(inside, None)


def to_spare_ms(longyaal_cu_ms: float) -> float:
    """How much latency may be gained before its regime is left upwards.

    Negative where it is in none: by how much it is above the last one, or ahead of the speech.
    """
    regime = regime_of(longyaal_cu_ms)
    if regime is None:
        return min(longyaal_cu_ms, HIGH.highest_ms - longyaal_cu_ms)
    return regime.highest_ms - longyaal_cu_ms
