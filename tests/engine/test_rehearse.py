"""Real configurations on stand-ins, on real engines: ``alignatt rehearse``, two of them."""

from __future__ import annotations

import pytest

from alignatt_agent.checks.rehearse import run, talk


@pytest.mark.parametrize("name", ["milmmt46-low", "hy-mt-1.8b-low"])
def test_a_configuration_runs_on_the_published_shape(name, tmp_path):
    found = list(run([name], talk(3.0), tmp_path))
    assert [item.problems for item in found] == [[] for _ in found]
    gated = name == "milmmt46-low"
    assert [item.target for item in found] == (["de", "it", "zh"] if gated else ["de", "zh"])
    for item in found:
        assert item.tokens
        assert (item.drafts_with_rows > 0) == gated
        assert (item.largest is not None and item.largest <= 1e-4) == gated
