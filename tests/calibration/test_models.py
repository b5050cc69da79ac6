"""Calibration of the embedded model inside vLLM, compared with Transformers."""

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from alignatt_agent.calibration import select_heads
from alignatt_agent.calibration.head_scores import score
from alignatt_agent.calibration.prompted_pair import PairPrompter
from alignatt_agent.calibration.row_reader import open_reader
from alignatt_agent.cli import main
from alignatt_agent.config.agent_config import load_config
from alignatt_agent.config.head_sets import load_head_set
from alignatt_agent.config.languages import language
from alignatt_agent.config.prompt import PromptConfig
from alignatt_agent.engine.transformers_engine import TransformersEngine
from alignatt_agent.evaluation.cache import ResultCache
from alignatt_agent.translation.prompt import PromptBuilder
from lab.micro_world.pairs import micro_pairs
from tests.calibration.chat_endpoint import answer, chat_endpoint

MODEL = "micro_models/gemma4"
COUNT = 12


@pytest.fixture(scope="module")
def loaded():
    with open_reader(load_config("micro-low").models.translation) as loaded:
        yield loaded


@pytest.fixture(autouse=True)
def _one_engine(loaded, monkeypatch):
    monkeypatch.setattr(select_heads, "open_reader", lambda model: nullcontext(loaded))


def calibrate(output: Path, *options: str, status: int = 0) -> dict:
    command = ["calibrate", "run", "--config", "micro-low", "--target", "de"]
    command += ["--pairs", f"micro:{COUNT}:77", "--output", str(output), *options]
    assert main(command) == status
    return json.loads(output.read_text()) if not status else {}


def test_a_few_pairs_find_the_heads_of_the_shipped_set(tmp_path):
    output = tmp_path / "whole.json"
    content = calibrate(output)
    found, shipped = load_head_set(str(output)), load_head_set("micro-en-de")
    found.check(MODEL, shipped.num_layers, shipped.num_heads, "en-de")
    rows = content["rows"]
    best = {tuple(head) for head in rows[shipped.row]["heads"][:4]}
    assert best <= set(shipped.heads[:5])
    for row in rows.values():
        assert row["head_set"]["value"] > row["all_heads"]["value"]
    assert rows[shipped.row]["head_set"]["value"] >= 0.85
    assert content["n_pairs"] + content["held_out"]["n_pairs"] == COUNT
    assert found.prompt_sha256 == shipped.prompt_sha256 == PromptConfig().digest("en", "de")
    assert content["provenance"]["skipped"] == {}


def test_bad_pairs_are_left_out_and_counted(tmp_path):
    drawn = micro_pairs(8, 77, language("en"), language("de")).pairs
    good = tmp_path / "good.tsv"
    with good.open("w", encoding="utf-8") as file:  # every target unit is a word
        for pair in drawn:
            links = " ".join(f"{i}-{j}" for i, j in pair.gold)
            file.write(f"{' '.join(pair.source)}\t{' '.join(pair.units)}\t{links}\n")
    long = " ".join(["models"] * 3000)
    bad = [("", "0-0"), ("We.", "7-0"), ("We.", None), ("He.", ""), (long, "0-0")]
    clean = calibrate(tmp_path / "a.json", "--pairs", str(good))
    with good.open("a", encoding="utf-8") as file:
        file.writelines(f"{text}\tWir.\t{links or ''}\n" for text, links in bad)
    content = calibrate(tmp_path / "b.json", "--pairs", str(good))
    counted = {"alignment_out_of_range": 1, "empty_side": 1, "no_gold": 2, "too_long": 1}
    assert content["provenance"]["skipped"] == counted
    for key in ("heads", "ts_matrix", "held_out"):
        assert content[key] == clean[key]


def test_alignments_from_an_endpoint(capsys, tmp_path):
    def reply(question, attempt):
        if "0=I " in question or (attempt == 0 and "=the" in question):
            return answer("no idea") if "0=I " in question else 503
        sides = [line.count("=") for line in question.splitlines()]
        return answer({"links": [[min(j, sides[0] - 1), j] for j in range(sides[1])]})

    output = tmp_path / "set.json"
    with chat_endpoint(reply) as (url, seen):
        ask = ("--aligner", "openai", "--endpoint", url, "--aligner-model", "m")
        ask = (*ask, "--price", "0.25", "2")
        calibrate(output, *ask, status=2)
        assert not seen  # not without --yes
        content = calibrate(output, *ask, "--yes")
        asked = len(seen)
        assert calibrate(output, *ask) == content  # everything is known: --yes is not needed
        assert len(seen) == asked > COUNT
    skipped = content["provenance"]["skipped"]
    assert set(skipped) == {"aligner_nonsense"}
    assert content["n_pairs"] + content["held_out"]["n_pairs"] + sum(skipped.values()) == COUNT
    assert content["source_of_alignments"] == "chat model m"
    out = capsys.readouterr().out
    for text in (f"about {COUNT} requests", "US dollars", "No request was sent; add --yes"):
        assert text in out


def test_vllm_and_transformers_agree(loaded, tmp_path):
    """On all 48 heads."""
    builder, outcomes = PromptBuilder(loaded.tokenizer, "English", "German"), []
    prompter = PairPrompter(loaded.tokenizer, builder, loaded.max_context)
    drawn = micro_pairs(COUNT, 77, language("en"), language("de")).pairs
    pairs = [prompter(pair, pair.gold) for pair in drawn]
    theirs = replace(loaded, reader=TransformersEngine(MODEL, dtype="float32"))
    for name, one in (("vllm", loaded), ("transformers", theirs)):
        with ResultCache(tmp_path / "scores.sqlite") as cache:
            outcomes.append(score(one, pairs[:8], pairs[8:], cache, name, 8))
    for row, a in outcomes[0].rows.items():
        b = outcomes[1].rows[row]
        np.testing.assert_allclose(100 * a.matrix, 100 * b.matrix, atol=0.1)
        assert a.ranking[:8] == b.ranking[:8]
        for found in ("head_set", "all_heads"):
            values = [100 * getattr(item, found).value for item in (a, b)]
            np.testing.assert_allclose(*values, atol=0.1)
