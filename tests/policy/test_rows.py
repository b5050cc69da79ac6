"""The maths of both branches on numbers worked out by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignatt_agent.policy.rows import MIN_DEVIATION, PeakFilter, median_filter

DYADIC = st.integers(0, 64).map(lambda n: n / 64)


def source_peaks(source, normalize, median_width, median="mean_first"):
    peak_filter = PeakFilter(normalize, median_width, median)
    return [int(peak_filter(row).argmax()) for row in source]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(DYADIC, min_size=6, max_size=6), min_size=1, max_size=8))
def test_zscore_equals_two_pass_moments_of_the_rows_so_far_head_by_head(rows):
    source = np.array(rows, dtype=np.float32).reshape(-1, 2, 3)
    scores = PeakFilter("zscore", 1)
    for t in range(len(rows)):
        past = source[: t + 1].astype(np.float64)
        expected = (source[t] - past.mean(0)) / np.maximum(past.std(0), MIN_DEVIATION)
        np.testing.assert_allclose(scores(source[t]), expected.mean(0), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("width", "row", "expected"),
    [
        (1, [0, 9, 0], [0, 9, 0]),
        (3, [0, 9, 0, 5, 6], [0, 0, 5, 5, 6]),  # edges read 0|0 9 and 5 6|6
        (3, [0, 0, 0, 9], [0, 0, 0, 9]),  # a lone peak on the last token keeps its place
        (3, [0, 0, 8, 9], [0, 0, 8, 9]),
        (7, [1, 2, 3, 9, 8, 7, 4], [1, 2, 3, 4, 4, 4, 4]),
        (7, [5], [5]),
        (7, [6, 4], [6, 4]),  # 6 6 6|6 4|4 4 and 6 6|6 4|4 4 4
        (7, [5, 6, 4], [5, 5, 4]),  # 5 5 5|5 6 4|4, 5 5|5 6 4|4 4 and 5|5 6 4|4 4 4
    ],
)
def test_median_by_hand(width, row, expected):
    assert median_filter(np.array([row], dtype=float), width).tolist() == [expected]


def test_the_median_comes_after_or_before_heads_are_averaged():
    # Each head has its own lone peak; their mean is a plateau that the median keeps.
    source = np.zeros((1, 3, 9), dtype=np.float32)
    source[0, 0, 5] = source[0, 1, 6] = source[0, 2, 7] = 0.9
    source[0, :, 2] = 0.35  # the highest mean, but alone
    assert source_peaks(source, "none", 1) == [2]
    assert source_peaks(source, "none", 3) == [5]
    assert source_peaks(source, "none", 3, "per_head") == [0]  # no head has a plateau


def test_peaks_use_the_zscore_only_when_asked():
    # Column 0 always has much attention, column 2 becomes unusual in the last row.
    source = np.array([[[0.6, 0.1, 0.1]], [[0.7, 0.1, 0.0]], [[0.6, 0.1, 0.2]]], dtype=np.float32)
    assert source_peaks(source, "none", 1) == [0, 0, 0]
    assert source_peaks(source, "zscore", 1) == [0, 0, 2]
    assert source_peaks(np.full((1, 2, 4), 0.25, np.float32), "none", 1) == [0]  # the leftmost
