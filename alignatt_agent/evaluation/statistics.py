"""Bootstrap intervals of scores.

The seed is fixed, so systems with the same number of items get the same resamples.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

RESAMPLES = 2000

LEVEL = 95
"""Confidence level of an interval, in percent."""

_SEED = 20260


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its ``LEVEL`` % interval."""

    value: float
    low: float
    high: float

    def as_json(self) -> dict[str, float]:
        """Return rounded values for files."""
        return {
            "value": round(self.value, 4),
            "low": round(self.low, 4),
            "high": round(self.high, 4),
        }


def interval(value: float, drawn: Array) -> Estimate:
    """Return ``value`` with the percentile interval of its resamples; NaN resamples are ignored."""
    # A resample can consist of items without a value.
    drawn = drawn[np.isfinite(drawn)]
    if not np.isfinite(value) or not len(drawn):
        return Estimate(math.nan, math.nan, math.nan)
    tail = (100 - LEVEL) / 2
    low, high = np.percentile(drawn, [tail, 100 - tail])
    return Estimate(float(value), float(low), float(high))


def micro(hits: npt.ArrayLike, totals: npt.ArrayLike) -> Estimate:
    """Return the sum of ``hits`` divided by the sum of ``totals``; items are resampled."""
    numerators = np.asarray(hits, np.float64)
    denominators = np.asarray(totals, np.float64)
    count = len(numerators)
    picks = np.random.default_rng(_SEED).integers(0, count, (RESAMPLES, count))
    resampled = numerators[picks].sum(1) / denominators[picks].sum(1)
    return interval(numerators.sum() / denominators.sum(), resampled)
