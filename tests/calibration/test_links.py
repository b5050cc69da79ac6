"""Word alignments: notation and error rate."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alignatt_agent.calibration.word_alignment import (
    ErrorRate,
    Links,
    format_pharaoh,
    parse_pharaoh,
)
from tests.calibration.pair_files import UNHURRIED

LINKS = st.frozensets(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12)


@UNHURRIED
@given(LINKS, LINKS)
def test_pharaoh_round_trip(sure, possible):
    links = Links.of(sure, possible)
    assert parse_pharaoh(format_pharaoh(links)) == links


def test_pharaoh_notation():
    links = parse_pharaoh("0-0 1p2 3?1")
    assert links.sure == {(0, 0)}
    assert links.possible == {(0, 0), (1, 2), (3, 1)}
    assert links.sources(2) == (1,)
    assert links.sources(5) == ()


@pytest.mark.parametrize("text", ["1", "a-b", "0-0,1-1", "-1-0", "0--1", "0-1x"])
def test_nonsense_is_not_a_link(text):
    with pytest.raises(ValueError, match="is not a link such as 3-4"):
        parse_pharaoh(text)


def test_error_rate():
    gold = Links.of({(0, 0), (1, 1)}, {(2, 1)})
    all_links = frozenset({(0, 0), (1, 1), (2, 1)}), gold
    few_links = frozenset({(0, 0), (5, 5)}), gold
    perfect, poor = ErrorRate.over([all_links]), ErrorRate.over([few_links])
    assert (perfect.aer, perfect.precision, perfect.recall) == (0, 1, 1)
    assert poor.aer == pytest.approx(1 - (1 + 1) / (2 + 2))
    assert (poor.precision, poor.recall) == (0.5, 0.5)
    both = ErrorRate.over([all_links, few_links])
    assert both.aer == pytest.approx(1 - (2 + 3 + 1 + 1) / (3 + 2 + 2 + 2))


@UNHURRIED
@given(LINKS, LINKS, LINKS)
def test_error_rate_is_a_share(found, sure, possible):
    assert 0 <= ErrorRate.over([(found, Links.of(sure, possible))]).aer <= 1
