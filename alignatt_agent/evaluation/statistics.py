"""Micro and macro means of hit counts with bootstrap intervals over sentence pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

RESAMPLES = 2000
LEVEL = 95
_SEED = 20260


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its bootstrap percentile interval at ``LEVEL`` %."""

    value: float
    low: float
    high: float

    def as_json(self) -> dict[str, float]:
        """Rounded, for files."""
        return {
            "value": round(self.value, 4),
            "low": round(self.low, 4),
            "high": round(self.high, 4),
        }


def resamples(count: int) -> npt.NDArray[np.int64]:
    """Draw ``[RESAMPLES, count]`` pair numbers with replacement; the same ones every time.

    Statistics that are compared share their resamples, so intervals of differences are paired.
    """
    return np.random.default_rng(_SEED).integers(0, count, (RESAMPLES, count))


def micro(hits: npt.ArrayLike, tokens: npt.ArrayLike) -> Estimate:
    """Share of all tokens that are hit.

    Args:
        hits: ``[pairs]``, hit tokens.
        tokens: ``[pairs]``, aligned tokens; none is 0.
    """
    hit, all_ = np.asarray(hits, np.float64), np.asarray(tokens, np.float64)
    drawn = resamples(len(hit))
    return estimate(hit.sum() / all_.sum(), hit[drawn].sum(1) / all_[drawn].sum(1))


def macro(hits: npt.ArrayLike, tokens: npt.ArrayLike) -> Estimate:
    """Mean over pairs of the share of a pair's tokens that are hit."""
    shares = np.asarray(hits, np.float64) / np.asarray(tokens, np.float64)
    return estimate(shares.mean(), shares[resamples(len(shares))].mean(1))


def estimate(value: float, drawn: npt.NDArray[np.float64]) -> Estimate:
    """Return ``value`` with the percentile interval of its resamples."""
    tail = (100 - LEVEL) / 2
    low, high = np.percentile(drawn, [tail, 100 - tail])
    return Estimate(float(value), float(low), float(high))
