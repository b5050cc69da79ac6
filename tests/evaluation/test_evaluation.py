"""``simulstream-eval`` from end to end on fake engines and real scorers."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
import yaml
from simulstream.config import yaml_config
from simulstream.metrics.readers import LogReader

from tests.fakes import agent as fakes

LANGUAGES = pytest.mark.parametrize(("target", "unit"), [("de", "word"), ("zh", "char")])


def test_a_run_prints_a_table_and_the_official_commands(finished):
    status, text, _ = finished.result
    assert status == 0
    folder = finished.root / "out" / "low" / "de"
    commands = (
        f"simulstream_inference --speech-processor-config {folder}/agent.yaml",
        "omnisteval longform",
    )
    assert all(shown in text for shown in ("BLEU", *commands))


@LANGUAGES
def test_log_round_trip_has_equal_unit_counts(finished, target, unit):
    out = finished.root / "out" / "low" / target
    config = yaml_config(str(out / "agent.yaml"))
    assert config.latency_unit == unit
    reader = LogReader(config, str(out / "metrics.jsonl"), latency_unit=unit)
    outputs = reader.final_outputs_and_latencies()
    assert list(outputs) == ["talk0", "talk1"]
    for output in outputs.values():
        text = output.final_text
        units = list(text) if unit == "char" else text.split()
        assert len(units) == len(output.ideal_delays) == len(output.computational_aware_delays) > 0
        assert output.ideal_delays == sorted(output.ideal_delays)
    tokens = [token for line in emissions(out / "metrics.jsonl") for token in line or ()]
    assert not any(char.isspace() for char in "".join(tokens))


@LANGUAGES
def test_scores_are_complete_and_signed(finished, target, unit):
    scores = json.loads((finished.root / "out" / "low" / target / "scores.json").read_text())
    assert scores["bleu"] > 99
    assert scores["chrf"] > 99
    assert 0 < scores["longyaal_cu_ms"] <= scores["longyaal_ca_ms"] < 4000
    assert 0 < scores["rtf"] < 0.5
    signature = scores["signature"]
    packages = {"alignatt_agent", "simulstream", "omnisteval", "vllm", "torch"}
    assert set(signature["versions"]) >= packages
    assert signature["versions"]["omnisteval"] == "0.1.10"
    assert signature["direction"] == f"en-{target}"
    assert signature["device"]
    assert len(signature["config_sha256"]) == 12
    assert all("sha256:" in model for model in signature["models"].values())


def emissions(path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line.get("generated_tokens") for line in lines]


def test_resolved_configuration_runs_as_it_is(finished, tmp_path):
    out = finished.root / "out" / "low" / "de"
    command = [
        *(sys.executable, "-m", "simulstream.inference"),
        *("--speech-processor-config", str(out / "agent.yaml")),
        *("--wav-list-file", str(out / "wavs.txt"), "--tgt-lang", "de", "--src-lang", "en"),
        *("--metrics-log-file", str(tmp_path / "log.jsonl")),
    ]
    subprocess.run(command, check=True, capture_output=True)
    assert emissions(tmp_path / "log.jsonl") == emissions(out / "metrics.jsonl")


@pytest.fixture
def call(capsys, tmp_path):
    """Returns status and printed texts of the command; ``changes`` replace its usual options."""
    usual = {"--agent": fakes.write_config(tmp_path), "--target": "de"}
    usual |= {"--devset": fakes.write_devset(tmp_path / "devset"), "--output": tmp_path / "out"}

    def call(changes=(), *more):
        given = usual | dict(changes)
        if "--config" in given:
            del given["--agent"]
        status = fakes.evaluate([*(str(item) for pair in given.items() for item in pair), *more])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return call


def test_dry_run_loads_nothing(call, tmp_path):
    status, text, _ = call((), "--dry-run")
    assert status == 0
    assert "no model was loaded" in text
    assert not (tmp_path / "out").exists()
    assert fakes.FakeAgent.starts == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--agent", "alignat"), "entry point of simulstream.agents (alignatt4llm"),
        (("--agent", "alignatt4llm"), "--config is missing"),
        (("--config", "micro-lo"), "did you mean micro-low?"),
        (("--set", "policy.nam=none"), "nearest known one is 'name'"),
        (("--set", "policy"), "expects KEY=VALUE"),
        (("--set", "chunk_ms.x=1"), "chunk_ms"),
        (("--set", "policy.top_k=9"), "holds 2 heads"),
        (("--set", "keep_up=true"), "instead of keep_up run alignatt serve"),
        (("--target", "Klingon"), "unknown language 'Klingon'"),
        (("--target", "it"), "no head set for en-it"),
        (("--source", "fr"), "direction en-de, not for fr-de"),
        (("--devset", "/nowhere"), "audio-segments.yaml does not exist"),
    ],
)
def test_nothing_starts_on_a_mistake(call, arguments, message):
    status, _, error = call([arguments])
    assert status == 2
    assert message in error
    assert fakes.FakeAgent.starts == 0


def test_missing_checkpoints_are_all_named_with_the_command(call, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hf" / "hub"))
    status, _, error = call({"--config": "iwslt26-low"})
    assert status == 2
    models = ("Qwen/Qwen3-ASR-1.7B", "Qwen/Qwen3-ForcedAligner-0.6B", "google/gemma-4-E4B-it")
    for name in models:
        assert re.search(rf"alignatt fetch {name}@[0-9a-f]{{40}}\b", error)


def test_incomplete_checkpoint_is_named(call, tmp_path):
    (tmp_path / "checkpoints" / "asr" / "model.safetensors").unlink()
    status, _, error = call()
    assert status == 2
    assert "asr" in error
    assert "it lacks *.safetensors" in error


def test_agents_by_entry_point_class_and_yaml(tmp_path):
    from alignatt_agent.evaluation.agent_choice import choose_agent

    config = fakes.write_config(tmp_path)
    named = choose_agent("alignatt4llm", "micro-low", {})
    dotted = choose_agent("tests.fakes.agent.FakeAgent", "micro-low", {})
    path = choose_agent(str(config), None, {"policy.name": "none"})
    assert named.cls.__name__ == "AlignAttAgent"
    assert dotted.cls is path.cls is fakes.FakeAgent
    assert yaml.safe_load(dotted.resolved_yaml("de"))["type"] == "tests.fakes.agent.FakeAgent"
    assert yaml.safe_load(path.resolved_yaml("zh"))["policy"]["name"] == "none"
    assert yaml.safe_load(path.resolved_yaml("zh"))["latency_unit"] == "char"
