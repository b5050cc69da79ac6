"""How a server is doing, for Prometheus."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

RECENT = 1000
"""Steps that lag and real-time factor are taken from: some minutes of a busy server."""


@dataclass(slots=True)
class Metrics:
    """What is counted while a server runs.

    Attributes:
        refusals: speakers who were told to come later.
    """

    refusals: int = 0
    _lags: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    _factors: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))

    def step(self, status: dict[str, Any]) -> None:
        """Note a ``status`` message of a speaker."""
        self._lags.append(status["behind_s"] + status["step_ms"] / 1000)
        self._factors.append(status["rtf"])

    def families(self, speakers: int, viewers: int, restarts: int) -> Iterator[Metric]:
        """Return the metrics.

        Args:
            speakers: who are being translated.
            viewers: who look on.
            restarts: of engines.
        """
        yield _gauge("speakers", "Speakers who are being translated", speakers)
        yield _gauge("viewers", "Viewers of all rooms", viewers)
        for share in (50, 95):
            text = f"Audio that waits and the step that hears it, percentile {share} of late"
            yield _gauge(f"lag_p{share}_seconds", text, _percentile(self._lags, share))
        text = "Seconds of computation per second of speech, median of late"
        yield _gauge("real_time_factor", text, _percentile(self._factors, 50))
        yield _counter("refusals", "Speakers who were told to come later", self.refusals)
        yield _counter("engine_restarts", "Engines that died and were started again", restarts)


def exposition(families: Iterator[Metric]) -> str:
    """Return metrics in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(list(families)))
    return generate_latest(registry).decode()


class _Collected:
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"alignatt_{name}", text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(f"alignatt_{name}", text, value=value)


def _percentile(values: deque[float], share: float) -> float:
    return float(np.percentile(list(values), share)) if values else 0.0
