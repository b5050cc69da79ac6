"""Export the metrics of a server to Prometheus."""

from collections import deque
from collections.abc import Callable, Iterator

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from alignatt_agent.serve.messages import Status

RECENT = 1000
"""Number of recent steps from which the lag and the real-time factor are computed."""


class Metrics:
    """Metrics of a running server; the functions in ``now`` return current values."""

    def __init__(self, **now: Callable[[], float]) -> None:
        self.registry = registry = CollectorRegistry(auto_describe=False)
        self.refusals = Counter(
            "alignatt_refusals", "Number of rejected clients", ["reason"], registry=registry
        )
        self._lags: deque[float] = deque(maxlen=RECENT)
        self._factors: deque[float] = deque(maxlen=RECENT)
        lag = "Seconds of waiting audio plus computation, percentile {} of recent live steps"
        factor = "Seconds of computation per second of audio, median of recent steps"
        for name, text, value in (
            ("speakers", "Number of active speakers", now["speakers"]),
            ("viewers", "Number of viewers in all rooms", now["viewers"]),
            ("lag_p50_seconds", lag.format(50), _percentile(self._lags, 50)),
            ("lag_p95_seconds", lag.format(95), _percentile(self._lags, 95)),
            ("real_time_factor", factor, _percentile(self._factors, 50)),
        ):
            Gauge(f"alignatt_{name}", text, registry=registry).set_function(value)
        registry.register(_Restarts(now["restarts"]))

    def step(self, status: Status, live: bool) -> None:
        """Record the status of a speaker; the lag is recorded only for live streams."""
        if live:
            self._lags.append(status.behind_s + status.step_ms / 1000)
        self._factors.append(status.rtf)


class _Restarts(Collector):
    """Exports the number of engine restarts, which the engines count, as a counter."""

    def __init__(self, count: Callable[[], float]) -> None:
        self._count = count

    def collect(self) -> Iterator[Metric]:
        """Return the current value; the exporter adds ``_total`` to the name."""
        text = "Number of engine restarts"
        yield CounterMetricFamily("alignatt_engine_restarts", text, value=self._count())


def _percentile(values: deque[float], share: float) -> Callable[[], float]:
    return lambda: float(np.percentile(list(values), share)) if values else 0.0
