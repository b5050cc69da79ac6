"""The latency regimes of the IWSLT simultaneous task, by computation-unaware LongYAAL."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Regime:
    """A range of latency.

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


@dataclass(frozen=True, slots=True)
class Place:
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


def place(longyaal_cu_ms: float) -> Place:
    """Tell where a latency lies; output ahead of the speech, below 0, is in no regime."""
    found = regime_of(longyaal_cu_ms)
    if found is not None:
        return Place(found.name, found.highest_ms - longyaal_cu_ms)
    return Place("none", min(longyaal_cu_ms, HIGH.highest_ms - longyaal_cu_ms))
