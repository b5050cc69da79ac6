"""Pareto fronts of quality against latency, and quality at a latency between their points."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def front(latency: Array, quality: Array) -> npt.NDArray[np.intp]:
    """Return the points that no other point beats, by rising latency.

    A point is beaten by one that is at least as fast and at least as good, and better in one of
    the two; of equal points the first stays. Points that are not numbers never count.

    Args:
        latency: ``[points]``.
        quality: ``[points]``.
    """
    known = np.flatnonzero(np.isfinite(latency) & np.isfinite(quality))
    order = known[np.lexsort((-quality[known], latency[known]))]
    best = np.maximum.accumulate(quality[order])
    rises = np.concatenate([[True], best[1:] > best[:-1]]) if len(order) else np.zeros(0, bool)
    return np.asarray(order[rises])


def at_latency(latency: Array, quality: Array, wanted: npt.ArrayLike) -> Array:
    """Return the quality on the front at the ``wanted`` latencies.

    Linear between neighbours on the front; the best quality beyond its slowest point, since one
    can always wait longer; NaN before its fastest point, which no run reaches.
    """
    places = front(latency, quality)
    if not len(places):
        return np.full(np.shape(wanted), np.nan)
    return np.asarray(
        np.interp(np.asarray(wanted, np.float64), latency[places], quality[places], left=np.nan)
    )
