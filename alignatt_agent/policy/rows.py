"""Process attention rows in two ways for the gate (branches A and B of the paper).

Arrays are ``[draft tokens, heads, source tokens]`` or, after averaging the heads,
``[draft tokens, source tokens]``. All arithmetic is in float64.
"""

import numpy as np
import numpy.typing as npt

from alignatt_agent.types import FloatArray

Rows = npt.NDArray[np.float64]

MIN_DEVIATION = 1e-6
"""Lower bound of the standard deviation in the z-score; a single row has a deviation of 0."""


def head_mean(source: FloatArray | Rows) -> Rows:
    """Average the heads: ``p`` of branch A, ``[draft, heads, source] -> [draft, source]``."""
    return np.asarray(np.mean(source, axis=1, dtype=np.float64))


def median_filter(rows: Rows, width: int) -> Rows:
    """Apply a median filter along the last axis (source); ``width`` is odd, and 1 has no effect.

    Edges are replicated (``a a | a b c``) for rows of any length. A single peak on the last source
    token therefore passes the filter; a single peak one token earlier does not.
    """
    if width == 1:
        return rows
    edges = [(0, 0)] * (rows.ndim - 1) + [(width // 2, width // 2)]
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(rows, edges, mode="edge"), width, axis=-1
    )
    return np.asarray(np.median(windows, axis=-1), dtype=np.float64)


class PeakFilter:
    """Branch B: filters the rows of one draft in order; the settings are those of ``AlignAtt``.

    With ``zscore``, rows are normalized by the moments of all rows so far (Welford's update). Each
    row is first added to the moments. The row's deviation from the mean is then divided by the
    population standard deviation per (head, source token), which is at least ``MIN_DEVIATION``. The
    first row is therefore all zeros. A row never depends on later tokens, so a scan that stops
    early makes the same decision. The paper does not state whether a row is included in its own
    moments; only including it reproduces the peaks recorded with a real Gemma-4.
    """

    def __init__(self, normalize: str, median_width: int, median: str = "mean_first") -> None:
        self._normalizes = normalize == "zscore"
        self._median_width = median_width
        self._per_head = median == "per_head"
        self._count = 0
        self._mean: Rows | float = 0.0
        self._squares: Rows | float = 0.0

    def __call__(self, row: FloatArray) -> Rows:
        """Filter the next row, ``[heads, source] -> [source]``; its argmax is the peak."""
        # With two rows, every z-score is +1 or -1, so positions tie for the peak and rounding
        # decides. The precision is therefore part of the rule (docs/paper.md).
        scores = np.asarray(row, np.float64)
        if self._normalizes:
            scores = self._zscore(scores)
        if self._per_head:
            return np.asarray(median_filter(scores, self._median_width).mean(axis=0))
        return median_filter(scores.mean(axis=0), self._median_width)

    def _zscore(self, values: Rows) -> Rows:
        # Welford's update: the difference of two large sums of squares would lose precision.
        self._count += 1
        delta = values - self._mean
        self._mean = self._mean + delta / self._count
        self._squares = self._squares + delta * (values - self._mean)
        deviation = np.maximum(np.sqrt(self._squares / self._count), MIN_DEVIATION)
        return np.asarray((values - self._mean) / deviation)
