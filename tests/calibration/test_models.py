"""Calibration of the embedded model, through Transformers and through vLLM."""

import json
from pathlib import Path

import numpy as np

from alignatt_agent.calibration.head_scores import AlignedPair, both_rows, score
from alignatt_agent.calibration.prompted_pair import PairPrompter
from alignatt_agent.calibration.row_reader import open_reader
from alignatt_agent.cli import main
from alignatt_agent.config.agent_config import ModelConfig
from alignatt_agent.config.head_sets import load_head_set
from alignatt_agent.config.languages import language
from alignatt_agent.config.prompt import PromptConfig
from alignatt_agent.evaluation.cache import ResultCache
from alignatt_agent.translation.prompt import PromptBuilder
from alignatt_agent.types import Prompt
from lab.micro_world.pairs import micro_pairs
from tests.calibration.chat_endpoint import answer, chat_endpoint
from tests.calibration.pair_files import json_lines
from tests.fixtures.engines import write_hybrid

MODEL = "micro_models/gemma4"
COUNT = 12


def calibrate(output: Path, *options: str, status: int = 0) -> dict:
    command = ["calibrate", "run", "--model", MODEL, "--target", "de"]
    command += ["--pairs", f"micro:{COUNT}:77", "--engine", "transformers"]
    command += ["--output", str(output), *options]
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
    good = Path(json_lines(drawn, tmp_path / "good.jsonl"))
    long = " ".join(["models"] * 3000)
    bad = [("", "0-0"), ("We.", "7-0"), ("We.", None), ("He.", ""), (long, "0-0")]
    records = [{"source": text, "target": "Wir.", "alignment": links} for text, links in bad]
    clean = calibrate(tmp_path / "a.json", "--pairs", str(good))
    with good.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(item) + "\n" for item in records)
    content = calibrate(tmp_path / "b.json", "--pairs", str(good))
    counted = {"alignment_out_of_range": 1, "empty_side": 1, "no_gold": 2, "too_long": 1}
    about = {"skipped": counted, "judged_by": "gold alignments"}
    assert content["provenance"] | about == content["provenance"]
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
    for text in (f"about {COUNT} requests", "US dollars", "Nothing was sent; add --yes"):
        assert text in out
    assert "the endpoint answered: " in out


def test_only_layers_with_attention_of_a_hybrid_are_read(tmp_path):
    heads = write_hybrid(tmp_path).config.num_attention_heads
    with open_reader("transformers", ModelConfig(path=str(tmp_path))) as loaded:
        assert loaded.num_layers == 4
        assert loaded.heads == tuple((3, head) for head in range(heads))
        pair = AlignedPair(Prompt((5, 6, 7, 8), 1, (0, 1)), (9, 8), ((0,), (1,)))
        rows = both_rows(loaded.reader, pair, loaded.heads)
    assert rows["emitted"].shape == (2, heads, 2)


def test_vllm_and_transformers_agree(tmp_path):
    """On all 48 heads."""
    model, outcomes = ModelConfig(path=MODEL), []
    with open_reader("transformers", model) as theirs, open_reader("vllm", model) as ours:
        for loaded in (ours, theirs):
            builder = PromptBuilder(loaded.tokenizer, "English", "German")
            prompter = PairPrompter(loaded.tokenizer, builder, loaded.max_context)
            drawn = micro_pairs(COUNT, 77, language("en"), language("de")).pairs
            pairs = [prompter(pair, pair.gold) for pair in drawn]
            with ResultCache(tmp_path / "scores.sqlite") as cache:
                outcomes.append(score(loaded, pairs[:8], pairs[8:], cache, loaded.engine, 8))
    for row, a in outcomes[0].rows.items():
        b = outcomes[1].rows[row]
        np.testing.assert_allclose(100 * a.matrix, 100 * b.matrix, atol=0.1)
        assert a.ranking[:8] == b.ranking[:8]
        by_k = [[100 * item.value for item in found.by_k] for found in (a, b)]
        np.testing.assert_allclose(*by_k, atol=0.1)
