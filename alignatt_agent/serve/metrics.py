"""The metrics of a server, for Prometheus."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

RECENT = 1000
"""Steps that lag and real-time factor are computed from: some minutes of a busy server."""


class Metrics:
    """What happens while a server runs; each function returns a number of now.

    Attributes:
        refusals: speakers refused because the server is full.
        registry: all metrics; each is read when Prometheus asks.
    """

    def __init__(
        self,
        speakers: Callable[[], float],
        viewers: Callable[[], float],
        restarts: Callable[[], float],
    ) -> None:
        self.refusals = 0
        self.registry = CollectorRegistry(auto_describe=False)
        self._lags: deque[float] = deque(maxlen=RECENT)
        self._factors: deque[float] = deque(maxlen=RECENT)
        lag = "Waiting audio and the step that recognizes it, percentile {} of recent steps"
        gauge, counter = GaugeMetricFamily, CounterMetricFamily
        for reading in (
            _Reading(gauge, "speakers", "Speakers being translated", speakers),
            _Reading(gauge, "viewers", "Viewers of all rooms", viewers),
            _Reading(gauge, "lag_p50_seconds", lag.format(50), _percentile(self._lags, 50)),
            _Reading(gauge, "lag_p95_seconds", lag.format(95), _percentile(self._lags, 95)),
            _Reading(
                gauge,
                "real_time_factor",
                "Seconds of computation per second of speech, median of recent steps",
                _percentile(self._factors, 50),
            ),
            _Reading(counter, "refusals", "Speakers refused: busy", lambda: self.refusals),
            _Reading(counter, "engine_restarts", "Restarts of engines that died", restarts),
        ):
            self.registry.register(reading)

    def step(self, status: dict[str, Any]) -> None:
        """Note a ``status`` message of a speaker."""
        self._lags.append(status["behind_s"] + status["step_ms"] / 1000)
        self._factors.append(status["rtf"])


@dataclass(frozen=True, slots=True)
class _Reading:
    """A metric that is read when it is asked for; ``prometheus_client`` has such gauges only."""

    family: type[GaugeMetricFamily | CounterMetricFamily]
    name: str
    text: str
    value: Callable[[], float]

    def collect(self) -> Iterator[Metric]:
        yield self.family(f"alignatt_{self.name}", self.text, value=self.value())


def _percentile(values: deque[float], share: float) -> Callable[[], float]:
    return lambda: float(np.percentile(list(values), share)) if values else 0.0
