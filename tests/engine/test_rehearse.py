"""Real configurations on stand-ins, on real engines: ``alignatt rehearse``, two of them."""

from __future__ import annotations

import pytest

from alignatt_agent.checks.rehearse import run, talk


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory):
    names = ["milmmt46-low", "hy-mt-1.8b-low"]
    return list(run(names, talk(3.0), tmp_path_factory.mktemp("rehearsal")))


def test_two_configurations_run_on_published_shapes(rehearsed):
    assert [item.problems for item in rehearsed] == [[]] * len(rehearsed)
    found = [(item.name, item.target) for item in rehearsed]
    assert found == [
        *(("milmmt46-low", target) for target in ("de", "it", "zh")),
        *(("hy-mt-1.8b-low", target) for target in ("de", "zh")),
    ]
    assert all(item.tokens for item in rehearsed)


def test_rows_are_read_and_exact_where_there_is_a_head_set(rehearsed):
    for item in rehearsed:
        gated = item.name == "milmmt46-low"
        assert (item.drafts_with_rows > 0) == gated
        assert (item.largest is not None and item.largest <= 1e-4) == gated
