"""The latency regimes of the IWSLT simultaneous task."""

from __future__ import annotations

from dataclasses import dataclass

REGIMES = {"low": (0.0, 2000.0), "high": (2000.0, 4000.0)}
"""LongYAAL CU in ms on the dev set, lower end excluded for ``high``."""


@dataclass(frozen=True, slots=True)
class Regime:
    """Where a direction lies.

    Attributes:
        name: ``low``, ``high`` or ``none``.
        margin_ms: how much latency it may still gain before it leaves its regime upwards;
            negative: by how much it is above the last one, or below zero.
    """

    name: str
    margin_ms: float

    def __str__(self) -> str:
        if self.name == "none":
            return f"outside by {-self.margin_ms:.0f} ms"
        return f"{self.name}, {self.margin_ms:.0f} ms to spare"


def regime(longyaal_cu_ms: float) -> Regime:
    """Tell the regime of a direction from its computation-unaware LongYAAL."""
    if longyaal_cu_ms < 0:
        # The output runs ahead of the speech: a system that makes up what was not said yet.
        return Regime("none", longyaal_cu_ms)
    for name, (_, high) in REGIMES.items():
        if longyaal_cu_ms <= high:
            return Regime(name, high - longyaal_cu_ms)
    return Regime("none", REGIMES["high"][1] - longyaal_cu_ms)
