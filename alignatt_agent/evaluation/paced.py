"""Latency by the clock: what a listener experiences, backlog included.

Audio arrives in real time. A chunk is processed when it has arrived and the chunks before it are
done; what it emits is heard when it is done. Simulstream's computation-aware delay is the audio so
far plus the computation of the same chunk, so a system slower than real time is not punished there.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from alignatt_agent.evaluation.latency import Unit
from alignatt_agent.evaluation.log import Step, TalkLog

_SAME_S = 1e-6
"""Scorers compute with milliseconds from the start of a segment, which rounds."""


@dataclass(frozen=True, slots=True)
class PacedLatency:
    """Ear-voice lag of every emitted unit by the clock.

    The lag of a unit is the time between the moment at which an ideal interpreter would have said
    it and the moment at which it was there: LongYAAL's lag of one unit, averaged as LongYAAL does,
    and pooled over all units, those after the end of a recording included.

    Attributes:
        longyaal_ms: LongYAAL with the clock's times, over the units that LongYAAL CU counts.
        mean_ms: mean lag of all units.
        p50_ms: median lag.
        p95_ms: 95th percentile.
        p99_ms: 99th percentile.
        longest_silence_s: longest time without an emission, from the first sample to the end.
        backlog_s: longest time by which a chunk waited for the ones before it.
        growth_ms_per_min: how much the lag grows with every minute of speech.
    """

    longyaal_ms: float
    mean_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    longest_silence_s: float
    backlog_s: float
    growth_ms_per_min: float

    def to_dict(self) -> dict[str, float]:
        """Return the figures, rounded for a report."""
        return {name: round(value, 4) for name, value in asdict(self).items()}


def schedule(steps: Sequence[Step]) -> list[float]:
    """Return when each chunk is done, in seconds after the speech began, from its compute time."""
    done: list[float] = []
    free = 0.0
    for step in steps:
        free = max(step.audio_s, free) + step.computation_s
        done.append(free)
    return done


def virtual_times(logs: Iterable[TalkLog]) -> dict[str, list[float]]:
    """Return the simulated clock of every talk: one time per chunk."""
    return {log.name: schedule(log.steps) for log in logs}


def read_times(path: Path) -> dict[str, list[float]]:
    """Read the clock of a real paced run (``paced.jsonl``)."""
    times: dict[str, list[float]] = {}
    for text in path.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        times.setdefault(line["talk"], []).append(line["done_s"])
    return times


def paced_latency(
    logs: Sequence[TalkLog], times: Mapping[str, Sequence[float]], units: Sequence[Unit]
) -> PacedLatency:
    """Measure the lag of every unit.

    Args:
        logs: Simulstream's log.
        times: for each talk and chunk, when it was done.
        units: the scored units, in order.

    Raises:
        ValueError: the clock and the log disagree, or there is no unit.
    """
    if not units:
        raise ValueError("no unit was emitted")
    clocks = {log.name: _Clock(log, times[log.name]) for log in logs}
    lags = [clocks[unit.talk].done(unit) - unit.ideal_s for unit in units]
    segments: dict[int, list[float]] = {}
    for unit, lag in zip(units, lags, strict=True):
        if unit.counted:
            segments.setdefault(unit.segment, []).append(lag)
    means = [float(np.mean(values)) for values in segments.values()]
    p50, p95, p99 = (1000 * float(np.percentile(lags, q)) for q in (50, 95, 99))
    return PacedLatency(
        longyaal_ms=1000 * float(np.mean(means)) if means else float("nan"),
        mean_ms=1000 * float(np.mean(lags)),
        p50_ms=p50,
        p95_ms=p95,
        p99_ms=p99,
        longest_silence_s=max(_silence(log, times[log.name]) for log in logs),
        backlog_s=max(_backlog(log, times[log.name]) for log in logs),
        growth_ms_per_min=1000 * 60 * _slope([unit.ideal_s for unit in units], lags),
    )


def agreement(real: PacedLatency, virtual: PacedLatency) -> float:
    """Return by how much the mean lags of a real and a simulated clock differ, relatively."""
    return abs(virtual.mean_ms - real.mean_ms) / max(abs(real.mean_ms), 1e-9)


def paced_report(
    mode: str, logs: Sequence[TalkLog], units: Sequence[Unit], clock: Path | None
) -> dict[str, Any]:
    """Return the paced figures of a run, and with a real clock how well the simulation agrees."""
    virtual = paced_latency(logs, virtual_times(logs), units)
    if clock is None:
        return {"clock": "virtual", **virtual.to_dict()}
    real = paced_latency(logs, read_times(clock), units)
    return {
        "clock": mode,
        **real.to_dict(),
        "virtual": virtual.to_dict(),
        "virtual_differs": round(agreement(real, virtual), 4),
    }


class _Clock:
    """Finds the chunk that emitted a unit by its official delays."""

    def __init__(self, log: TalkLog, done: Sequence[float]) -> None:
        if len(done) != len(log.steps):
            raise ValueError(f"{log.name}: {len(done)} times for {len(log.steps)} chunks")
        self._steps = log.steps
        self._done = done
        self._audio = [step.audio_s for step in log.steps]

    def done(self, unit: Unit) -> float:
        """Return when the chunk of ``unit`` was done."""
        first = bisect_left(self._audio, unit.cu_s - _SAME_S)
        last = bisect_right(self._audio, unit.cu_s + _SAME_S)
        if first == last:
            raise ValueError(f"{unit.talk}: no chunk ends at {unit.cu_s:.4f} s")
        # The end of a stream may repeat the audio time of the chunk before it.
        wait = unit.ca_s - unit.cu_s
        chunk = min(range(first, last), key=lambda k: abs(self._steps[k].computation_s - wait))
        return self._done[chunk]


def _silence(log: TalkLog, done: Sequence[float]) -> float:
    spoken = [time for step, time in zip(log.steps, done, strict=True) if step.tokens]
    return max((b - a for a, b in pairwise([0.0, *spoken, *done[-1:]])), default=0.0)


def _backlog(log: TalkLog, done: Sequence[float]) -> float:
    return max(
        (
            time - step.computation_s - step.audio_s
            for step, time in zip(log.steps, done, strict=True)
        ),
        default=0.0,
    )


def _slope(x: Sequence[float], y: Sequence[float]) -> float:
    spread = np.asarray(x) - np.mean(x)
    total = float((spread**2).sum())
    return float((spread * np.asarray(y)).sum()) / total if total else 0.0
