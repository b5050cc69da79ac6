"""Export the metrics of a server to Prometheus."""

from collections import deque
from collections.abc import Callable

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge

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
            ("engine_restarts_total", "Number of engine restarts", now["restarts"]),
        ):
            Gauge(f"alignatt_{name}", text, registry=registry).set_function(value)

    def step(self, status: Status, live: bool) -> None:
        """Record the status of a speaker; the lag is recorded only for live streams."""
        if live:
            self._lags.append(status.behind_s + status.step_ms / 1000)
        self._factors.append(status.rtf)


def _percentile(values: deque[float], share: float) -> Callable[[], float]:
    return lambda: float(np.percentile(list(values), share)) if values else 0.0
