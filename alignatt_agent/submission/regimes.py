"""Latency regimes of the IWSLT simultaneous task, by computation-unaware LongYAAL."""

from __future__ import annotations

from dataclasses import dataclass

from alignatt_agent.evaluation.regime import REGIMES as LIMITS


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


REGIMES = {name: Regime(name, *limits) for name, limits in LIMITS.items()}
"""IWSLT 2026: shared by all directions, decided on dev-set logs."""


def regime_of(longyaal_cu_ms: float) -> Regime | None:
    """Return the regime of a latency; ``None`` when it is in none."""
    for regime in REGIMES.values():
        if regime.margin_ms(longyaal_cu_ms) >= 0:
            return regime
    return None
