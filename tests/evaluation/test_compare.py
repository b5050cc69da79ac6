"""``alignatt compare``: differences of two runs with their significance."""

import json
import random

import pytest

from alignatt_agent.cli import main
from alignatt_agent.evaluation.compare import compare
from tests.evaluation import logs
from tests.fakes import agent as fakes

LENGTHS = (120, 90)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three scored runs: good, with some words wrong, later by two seconds."""
    root = tmp_path_factory.mktemp("compare")
    devset = fakes.write_devset(root / "devset", LENGTHS)
    chance = random.Random(1)

    def wrong(text):
        return "falsch" if chance.random() < 0.2 else text

    made = {
        "good": logs.lines(LENGTHS),
        "wrong": logs.lines(LENGTHS, spoil=wrong),
        "late": logs.lines(LENGTHS, lag_words=6),
    }
    for name, log in made.items():
        path = logs.write(root / "logs" / name / "log.jsonl", log)
        assert logs.rescore(path, devset, root / name)[0] == 0
    return root


def by_metric(root, a, b):
    return {item.metric: item for item in compare(root / a / "de", root / b / "de", samples=300)}


def test_equal_outputs_and_wrong_words(runs):
    found = by_metric(runs, "good", "good")
    assert set(found) == {"BLEU", "chrF2", "LongYAAL CU", "LongYAAL CA"}
    assert all(item.difference == 0 and item.p > 0.5 for item in found.values())
    found = by_metric(runs, "good", "wrong")
    scores = json.loads((runs / "wrong" / "de" / "scores.json").read_text())
    for metric, key in [("BLEU", "bleu"), ("chrF2", "chrf"), ("LongYAAL CU", "longyaal_cu_ms")]:
        assert found[metric].b == pytest.approx(scores[key], abs=1e-3)
    assert found["BLEU"].difference < -10
    assert found["BLEU"].p < 0.01
    assert found["chrF2"].p < 0.01
    assert found["LongYAAL CU"].p > 0.05


def test_a_later_output_costs_latency_and_not_quality(runs):
    found = by_metric(runs, "good", "late")
    assert found["BLEU"].difference == 0
    assert found["LongYAAL CU"].difference == pytest.approx(1900, abs=400)
    assert found["LongYAAL CU"].p < 0.01
    low, high = found["LongYAAL CU"].low, found["LongYAAL CU"].high
    assert 0 < low <= found["LongYAAL CU"].difference <= high


def test_command(runs, capsys):
    assert main(["compare", str(runs / "good"), str(runs / "wrong")]) == 0
    text = capsys.readouterr().out
    for shown in ("BLEU", " * ", "paired bootstrap"):
        assert shown in text


def test_what_cannot_be_compared(runs, capsys, tmp_path):
    good = runs / "good" / "de" / "scores.json"

    def changed(before, after):
        (tmp_path / "de").mkdir(exist_ok=True)
        (tmp_path / "de" / "scores.json").write_text(good.read_text().replace(before, after))
        return ["compare", str(runs / "good"), str(tmp_path)]

    assert main(changed("2 talks, ", "3 talks, ")) == 2
    assert "devset differs" in capsys.readouterr().err
    assert main(["compare", str(runs / "good"), str(tmp_path / "nothing")]) == 2
    assert "no common target" in capsys.readouterr().err
    assert main(changed('"0.1.10"', '"0.1.9"')) == 2
    assert "the versions of OmniSTEval differ (0.1.10 and 0.1.9)" in capsys.readouterr().err
