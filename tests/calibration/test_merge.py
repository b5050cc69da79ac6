"""One head set for any target, from those of several targets."""

import pytest

from alignatt_agent.calibration.cli import main
from alignatt_agent.calibration.merge import losses, merge
from alignatt_agent.config.agent_config import load_config
from alignatt_agent.config.head_set_choice import head_set_for
from alignatt_agent.config.head_sets import ANY, HeadSetError, load_head_set
from alignatt_agent.config.languages import language
from alignatt_agent.config.resolved import resolve


@pytest.fixture(scope="module")
def merged(tmp_path_factory):
    file = tmp_path_factory.mktemp("any") / "any.json"
    sets, judge = ["micro-en-it", "micro-en-zh"], ["--judge", "micro-en-de"]
    assert main(["merge", *sets, *judge, "--keep", "4", "--output", str(file)]) == 0
    return str(file)


def test_the_heads_with_the_best_mean_are_kept(merged):
    found = load_head_set(merged)
    assert (found.direction, found.provisional, found.row) == ("en-*", True, "predicting")
    assert set(found.heads) == {(4, 2), (3, 6), (3, 1), (2, 3)}
    assert list(found.ts) == sorted(found.ts, reverse=True)
    assert found.prompt_sha256 == load_head_set("micro-en-it").prompt_sha256


def test_what_it_loses_is_told_for_each_direction():
    sets = [load_head_set("gemma4-en-de"), load_head_set("gemma4-en-zh")]
    _, heads = merge(sets, 2)
    assert [round(own - shared, 3) for _, own, shared, _ in losses(heads, sets)] == [0, 0]
    ((_, _, shared, note),) = losses([(11, 3), (9, 9)], sets[:1])
    assert shared == pytest.approx(0.833 / 2)
    assert note == "lower bound: scores are missing"  # the file has no score of head 9,9


def test_sets_that_do_not_go_together():
    with pytest.raises(HeadSetError, match="the same model can be merged: micro-en-it has"):
        merge([load_head_set("micro-en-it"), load_head_set("gemma4-en-de")], 4)
    with pytest.raises(HeadSetError, match="--keep 0: expected at least 1 head"):
        merge([load_head_set("micro-en-it")], 0)
    merge([load_head_set("gemma4-any")], 4)  # it has no matrix


def test_it_serves_every_target_without_a_set_of_its_own(merged):
    head_sets = {ANY: merged, "de": "micro-en-de"}
    found = resolve(load_config("micro-low", {"head_sets": head_sets, "policy.top_k": 4}))
    assert found.head_sets["de"].name == "micro-en-de"
    assert found.head_sets["fr"].name == found.head_sets["zh"].name == "any"
    assert "en" not in found.head_sets
    assert len(found.heads) == 4
    assert head_set_for(found.config, language("en"), ANY).name == "any"
