"""The two readings of the attention rows behind the gate (branches A and B of the paper).

Arrays are ``[draft tokens, heads, source tokens]`` or, once heads are averaged,
``[draft tokens, source tokens]``. All arithmetic is in float64.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from alignatt_agent.nouns import FloatArray

Rows = npt.NDArray[np.float64]

MIN_DEVIATION = 1e-6
"""Floor of the standard deviation in the z-score: one earlier row has none."""


def head_mean(source: FloatArray) -> Rows:
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


def prefix_zscore(source: FloatArray) -> Rows:
    """Normalise every (head, source token) by the moments of the *earlier* draft rows.

    Welford's update runs over the draft axis. Row ``t`` is shifted by the mean and divided by the
    population standard deviation of rows ``0 .. t-1``, which is floored at ``MIN_DEVIATION``; row
    0 has no past and stays raw. So a row never depends on what was drafted after it, and a scan
    that stops early decides the same.

    Args:
        source: ``[draft, heads, source]``.
    """
    rows = np.asarray(source, dtype=np.float64)
    scores = rows.copy()
    mean = np.zeros(rows.shape[1:])
    squares = np.zeros(rows.shape[1:])
    for count, row in enumerate(rows):
        if count:
            deviation = np.maximum(np.sqrt(squares / count), MIN_DEVIATION)
            scores[count] = (row - mean) / deviation
        delta = row - mean
        mean = mean + delta / (count + 1)
        squares = squares + delta * (row - mean)
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


def source_peaks(source: FloatArray, *, zscore: bool, median_width: int) -> npt.NDArray[np.intp]:
    """Branch B: the filtered source argmax of every draft row; the leftmost of equal peaks.

    Args:
        source: ``[draft, heads, source]``.
        zscore: normalise with ``prefix_zscore`` before heads are averaged.
        median_width: odd width of the median filter.

    Returns:
        Source-token index of each peak, ``[draft]``.
    """
    rows = head_mean(source) if not zscore else prefix_zscore(source).mean(axis=1)
    return np.asarray(median_filter(rows, median_width).argmax(axis=1))
