"""Export the metrics of a server to Prometheus."""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

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
        # Unlike the global registry, it has no metrics of vLLM, and several can be in a process.
        self.registry = CollectorRegistry(auto_describe=False)
        self.refusals = Counter(
            name="alignatt_refusals",
            documentation="Number of rejected clients",
            labelnames=["reason"],
            registry=self.registry,
        )
        self._lags: deque[float] = deque(maxlen=RECENT)
        self._factors: deque[float] = deque(maxlen=RECENT)
        self._gauge("speakers", "Number of active speakers", now["speakers"])
        self._gauge("viewers", "Number of viewers in all rooms", now["viewers"])
        for share in (50, 95):
            self._gauge(
                f"lag_p{share}_seconds",
                f"Seconds of waiting audio plus computation, percentile {share} of recent live "
                f"steps",
                partial(_percentile, self._lags, share),
            )
        self._gauge(
            "real_time_factor",
            "Seconds of computation per second of audio, median of recent steps",
            partial(_percentile, self._factors, 50),
        )
        self.registry.register(_Restarts(now["restarts"]))

    def _gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        gauge = Gauge(f"alignatt_{name}", text, registry=self.registry)
        gauge.set_function(value)

    def step(self, status: Status, live: bool) -> None:
        """Record the status of a speaker; the lag is recorded only for live streams."""
        # Other clients send a whole recording at once, so most of it waits.
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


def _percentile(values: deque[float], share: float) -> float:
    """Return a percentile of ``values``, or 0 without values."""
    if not values:
        return 0.0
    return float(np.percentile(list(values), share))
