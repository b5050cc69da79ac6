"""The two readings of the attention rows behind the gate (branches A and B of the paper).

Arrays are ``[draft tokens, heads, source tokens]`` or, once heads are averaged,
``[draft tokens, source tokens]``. All arithmetic is in float64.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from alignatt_agent.types import FloatArray

Rows = npt.NDArray[np.float64]

MIN_DEVIATION = 1e-6
"""Floor of the standard deviation in the z-score: one earlier row has none."""


def head_mean(source: FloatArray | Rows) -> Rows:
    """Average the heads: ``p`` of branch A, ``[draft, heads, source] -> [draft, source]``."""
    return np.asarray(np.mean(source, axis=1, dtype=np.float64))


def source_mass(mean_rows: Rows, frontier: int) -> tuple[Rows, Rows]:
    """Split each head-averaged row at the frontier (Eqs. 3-4).

    Args:
        mean_rows: ``[draft, source]``.
        frontier: number of leading accessible source tokens.

    Returns:
        Accessible and inaccessible mass, ``[draft]`` each.
    """
    return mean_rows[:, :frontier].sum(axis=1), mean_rows[:, frontier:].sum(axis=1)


class PrefixMoments:
    """Normalises rows one by one with the moments of the rows before (Welford's update).

    A row is shifted by the mean and divided by the population standard deviation of all earlier
    rows, per (head, source token); the deviation is floored at ``MIN_DEVIATION``. The first row
    has no past and stays raw. So a row never depends on what was drafted after it, and a scan
    that stops early decides the same.
    """

    def __init__(self) -> None:
        self._count = 0
        self._mean: Rows | float = 0.0
        self._squares: Rows | float = 0.0

    def zscore(self, row: FloatArray) -> Rows:
        """Return the next row, ``[heads, source]``, normalised, and count it in."""
        values = np.asarray(row, np.float64)
        scores = values
        if self._count:
            deviation = np.maximum(np.sqrt(self._squares / self._count), MIN_DEVIATION)
            scores = (values - self._mean) / deviation
        self._count += 1
        delta = values - self._mean
        self._mean = self._mean + delta / self._count
        self._squares = self._squares + delta * (values - self._mean)
        return scores


def median_filter(rows: Rows, width: int) -> Rows:
    """Median along the source axis, ``[draft, source]``; ``width`` is odd and 1 changes nothing.

    Edges are mirrored without repeating the edge value (``c b | a b c``). Repeating it would hand
    a lone peak on the last source token, right at the frontier, a majority that the same peak
    does not have one token earlier. Rows too short to be mirrored stay as they are.
    """
    if rows.shape[1] <= width // 2 or width == 1:
        return rows
    padded = np.pad(rows, ((0, 0), (width // 2, width // 2)), mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, width, axis=1)
    return np.asarray(np.median(windows, axis=-1), dtype=np.float64)


class PeakFilter:
    """Branch B: the filtered rows of one draft, one after the other.

    Args:
        normalise: ``"zscore"`` normalises every head by its earlier rows before heads are
            averaged, ``"none"`` averages raw rows.
        median_width: odd width of the median filter along the source; 1 changes nothing.
    """

    def __init__(self, normalise: str, median_width: int) -> None:
        self._moments = PrefixMoments() if normalise == "zscore" else None
        self._median_width = median_width

    def __call__(self, row: FloatArray) -> Rows:
        """Return the next row, ``[heads, source] -> [source]``; its argmax is the peak."""
        scores = row if self._moments is None else self._moments.zscore(row)
        (filtered,) = median_filter(head_mean(scores[None]), self._median_width)
        return np.asarray(filtered)
