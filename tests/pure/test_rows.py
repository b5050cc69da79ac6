"""The maths of both branches on numbers worked out by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignatt_agent.policy.rows import (
    MIN_DEVIATION,
    PeakFilter,
    PrefixMoments,
    head_mean,
    median_filter,
    source_mass,
)

DYADIC = st.integers(0, 64).map(lambda n: n / 64)


def prefix_zscore(source):
    moments = PrefixMoments()
    return np.stack([moments.zscore(row) for row in source])


def source_peaks(source, normalise, median_width):
    peak_filter = PeakFilter(normalise, median_width)
    return [int(peak_filter(row).argmax()) for row in source]


def test_masses_split_the_head_mean_at_the_frontier():
    source = np.array([[[0.5, 0.125, 0.0], [0.25, 0.125, 0.5]]], dtype=np.float32)
    mean = head_mean(source)
    assert mean.tolist() == [[0.375, 0.125, 0.25]]
    accessible, inaccessible = source_mass(mean, 2)
    assert accessible.tolist() == [0.5]
    assert inaccessible.tolist() == [0.25]
    assert source_mass(mean, 0)[0].tolist() == [0.0]
    assert source_mass(mean, 3)[1].tolist() == [0.0]


def test_zscore_by_hand():
    # Column 0: 0, 0.5, 1; column 1 is constant.
    source = np.array([[[0.0, 0.25]], [[0.5, 0.25]], [[1.0, 0.25]]], dtype=np.float32)
    scores = prefix_zscore(source)[:, 0]
    assert scores[0].tolist() == [0.0, 0.25]  # raw
    # One earlier row has no deviation: the floor divides.
    assert scores[1].tolist() == [0.5 / MIN_DEVIATION, 0.0]
    # Mean 0.25 and population deviation 0.25 of (0, 0.5): (1 - 0.25) / 0.25 = 3.
    assert scores[2].tolist() == [3.0, 0.0]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(DYADIC, min_size=3, max_size=3), min_size=1, max_size=8))
def test_zscore_equals_two_pass_moments_of_the_earlier_rows(rows):
    source = np.array(rows, dtype=np.float32)[:, None, :]
    scores = prefix_zscore(source)
    assert scores[0].tolist() == source[0].tolist()
    for t in range(1, len(rows)):
        past = source[:t].astype(np.float64)
        expected = (source[t] - past.mean(0)) / np.maximum(past.std(0), MIN_DEVIATION)
        np.testing.assert_allclose(scores[t], expected, rtol=1e-6, atol=1e-6)
        # Nothing that is drafted later changes a row.
        np.testing.assert_array_equal(prefix_zscore(source[: t + 1])[t], scores[t])


def test_zscore_does_not_mix_heads():
    source = np.random.default_rng(0).random((5, 3, 4)).astype(np.float32)
    alone = prefix_zscore(source[:, 1:2])
    np.testing.assert_array_equal(prefix_zscore(source)[:, 1:2], alone)


@pytest.mark.parametrize(
    ("width", "row", "expected"),
    [
        (1, [0, 9, 0], [0, 9, 0]),
        (3, [0, 9, 0, 5, 6], [9, 0, 5, 5, 5]),  # edges read 9|0 9 and 5 6|5
        (3, [0, 0, 0, 9], [0, 0, 0, 0]),  # a lone peak at the frontier has no majority
        (3, [0, 0, 8, 9], [0, 0, 8, 8]),
        (7, [1, 2, 3, 9, 8, 7, 4], [3, 3, 3, 4, 7, 7, 8]),
        (7, [5], [5]),
        (7, [5, 6, 4], [5, 6, 4]),  # too short to be mirrored
        (7, [5, 6, 4, 1], [4, 4, 5, 5]),  # mirrored: 1 4 6|5 6 4 1|4 6 5
    ],
)
def test_median_by_hand(width, row, expected):
    assert median_filter(np.array([row], dtype=float), width).tolist() == [expected]


def test_peaks_filter_after_heads_are_averaged():
    # Each head has its own lone peak; their mean is a plateau that the median keeps.
    source = np.zeros((1, 3, 9), dtype=np.float32)
    source[0, 0, 5] = source[0, 1, 6] = source[0, 2, 7] = 0.9
    source[0, :, 2] = 0.35  # the highest mean, but alone
    assert source_peaks(source, "none", 1) == [2]
    assert source_peaks(source, "none", 3) == [5]


def test_peaks_use_the_zscore_only_when_asked():
    # Column 0 always has much attention, column 2 becomes unusual in the last row.
    source = np.array([[[0.6, 0.1, 0.1]], [[0.7, 0.1, 0.0]], [[0.6, 0.1, 0.2]]], dtype=np.float32)
    assert source_peaks(source, "none", 1) == [0, 0, 0]
    assert source_peaks(source, "zscore", 1) == [0, 0, 2]


def test_equal_peaks_take_the_leftmost():
    source = np.full((1, 2, 4), 0.25, dtype=np.float32)
    assert source_peaks(source, "none", 1) == [0]
