"""Figures of a calibration and of one draft."""

import logging
import re

import numpy as np
import pytest

from alignatt_agent.calibration.head_scores import RowScores
from alignatt_agent.evaluation.plots import FigureError
from alignatt_agent.evaluation.statistics import Estimate
from lab.calibration_figures import heat_map, main, score_by_k
from lab.explain.figure import draw_reconstruction
from lab.tests.test_explain import explained


def scores():
    matrix = np.linspace(0, 1, 12).reshape(4, 3)
    by_k = tuple(Estimate(x, x - 0.02, x + 0.02) for x in np.linspace(0.97, 0.6, 12))
    one = Estimate(0.9, 0.8, 1.0)
    ranking = tuple((a, b) for a in (3, 2, 1, 0) for b in (2, 1, 0))
    return RowScores(matrix, ranking, by_k, one, one, one)


def check(paths, *texts):
    assert [path.suffix for path in paths] == [".png", ".svg"]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    shown = re.findall(r">([^<>]+)</text>", paths[1].read_text(encoding="utf-8"))
    for text in texts:
        assert any(text in item for item in shown), (text, shown)


def test_heat_map(tmp_path):
    found = scores()
    paths = heat_map(found.matrix, found.ranking[:2], "org/model, en-de", tmp_path / "x" / "a.b")
    assert [path.name for path in paths] == ["a.b.png", "a.b.svg"]
    check(paths, "org/model, en-de", "layer", "head", "Translation Score, %", "2 retained heads")
    before = [path.read_bytes() for path in paths]
    heat_map(found.matrix, found.ranking[:2], "org/model, en-de", tmp_path / "x" / "a.b")
    assert [path.read_bytes() for path in paths] == before
    found.matrix[:2] = np.nan  # layers without attention
    check(heat_map(found.matrix, found.ranking[:2], "hybrid", tmp_path / "h"), "2 retained heads")


def test_score_by_k(tmp_path):
    rows = {"predicting": scores(), "emitted": scores()}
    paths = score_by_k(rows, 4, "org/model", tmp_path / "k", "emitted")
    check(paths, "emitted row (chosen)", "predicting row", "all 12", "95 % bootstrap")


def test_reconstruction(tmp_path):
    paths = draw_reconstruction(
        explained(border_margin=-1, accepted="Ja,"), "title", tmp_path / "draft"
    )
    texts = ("Modelle", "trainieren.", "models.", "accessible source", "suffix", "source-frontier")
    check(paths, *texts, "accepted and emitted", "dotted: with the margin", "Ja,")


def test_missing_glyphs_are_one_warning(tmp_path, caplog):
    found = scores()
    with caplog.at_level(logging.WARNING):
        paths = heat_map(found.matrix, [], "\U0001f984\U0001f409", tmp_path / "glyphs")
    assert len(caplog.records) == 1
    assert "no installed font has them" in caplog.text
    check(paths, "\U0001f984\U0001f409")


def test_missing_matplotlib_names_its_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(FigureError, match=r"alignatt_agent\[plots\]"):
        heat_map(scores().matrix, [], "x", tmp_path / "x")


def test_the_command_draws_what_it_found(tmp_path):
    model = ("--target", "de", "--engine", "transformers")
    pairs = ("--pairs", "micro:8:77", "--output", str(tmp_path / "one.json"))
    assert main(["--config", "micro-low", *model, *pairs]) == 0
    assert {path.stem for path in tmp_path.glob("*.svg")} == {"one-heads", "one-top-k"}
