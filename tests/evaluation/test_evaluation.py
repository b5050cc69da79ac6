"""``simulstream-eval`` from end to end on fake engines and real scorers."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

import pytest
import yaml
from simulstream.config import yaml_config
from simulstream.metrics.readers import LogReader

from tests.fakes import agent as fakes


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """Both targets run, and then one again in the same process; returns what was printed."""
    folder = tmp_path_factory.mktemp("evaluation")
    config = fakes.write_config(folder)
    devset = fakes.write_devset(folder / "devset")
    code = (
        "import sys; from alignatt_agent.evaluation.cli import main; "
        "from tests.fakes.agent import FakeAgent; "
        "given = sys.argv[1:]; status = main([*given, '--target', 'German', 'zh']); "
        "print('engine starts:', FakeAgent.starts); "
        "sys.exit(status or main([*given, '--target', 'de']))"
    )
    arguments = ["--agent", config, "--devset", devset, "--output", folder / "out"]
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return folder, subprocess.run(command, capture_output=True, text=True, check=False)


def test_run_succeeds_and_prints_a_table(evaluated):
    folder, first = evaluated
    assert first.returncode == 0, first.stderr
    assert "BLEU" in first.stdout
    assert "engine starts: 1" in first.stdout
    assert f"simulstream_inference --speech-processor-config {folder}/out/de/agent.yaml" in (
        first.stdout
    )
    assert "omnisteval longform" in first.stdout
    assert "talk0" in first.stderr
    assert "talk1" in first.stderr


@pytest.mark.parametrize(("target", "unit"), [("de", "word"), ("zh", "char")])
def test_log_round_trip_has_equal_unit_counts(evaluated, target, unit):
    folder, _ = evaluated
    out = folder / "out" / target
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
        if unit == "char":
            assert not any(char.isspace() for char in text)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        assert not any(
            char.isspace() for token in line.get("generated_tokens", []) for char in token
        )


@pytest.mark.parametrize("target", ["de", "zh"])
def test_scores_are_complete_and_signed(evaluated, target):
    folder, _ = evaluated
    scores = json.loads((folder / "out" / target / "scores.json").read_text())
    assert set(scores) >= {"bleu", "chrf", "longyaal_cu_ms", "longyaal_ca_ms", "rtf", "signature"}
    assert scores["bleu"] > 99
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


def test_rerun_overwrites(evaluated):
    folder, runs = evaluated
    assert runs.returncode == 0, runs.stderr
    lines = (folder / "out" / "de" / "metrics.jsonl").read_text().splitlines()
    assert sum("model_loading_time" in line for line in lines) == 1
    assert sum("metadata" in line for line in lines) == 2


def test_resolved_configuration_runs_as_it_is(evaluated, tmp_path):
    folder, _ = evaluated
    out = folder / "out" / "de"
    command = [
        sys.executable,
        "-m",
        "simulstream.inference",
        *("--speech-processor-config", str(out / "agent.yaml")),
        *("--wav-list-file", str(out / "wavs.txt"), "--tgt-lang", "de", "--src-lang", "en"),
        *("--metrics-log-file", str(tmp_path / "log.jsonl")),
    ]
    subprocess.run(command, check=True, capture_output=True)

    def emissions(path):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        return [line.get("generated_tokens") for line in lines]

    assert emissions(tmp_path / "log.jsonl") == emissions(out / "metrics.jsonl")


def test_call_order(tmp_path):
    from argparse import Namespace

    from simulstream import inference
    from simulstream.metrics.logger import METRICS_LOGGER

    fakes.write_devset(tmp_path / "devset", (4, 3))
    wavs = tmp_path / "wavs.txt"
    wavs.write_text("".join(f"{tmp_path}/devset/wav/talk{i}.wav\n" for i in range(2)))
    METRICS_LOGGER.setLevel(logging.INFO)
    inference.main(
        Namespace(
            speech_processor_config=str(fakes.write_config(tmp_path, "TracingAgent")),
            wav_list_file=str(wavs),
            tgt_lang="German",
            src_lang="English",
            metrics_log_file=str(tmp_path / "log.jsonl"),
        )
    )
    languages = ["set_target_language", "set_source_language"]
    ending = ["end_of_stream", "clear"]
    # 2.0 s and 1.5 s and a sample each: two and one whole pieces of 0.85 s, and a short one
    assert fakes.TracingAgent.calls == [
        "load_model",
        *languages,
        *["process_chunk"] * 3,
        *ending,
        *languages,
        *["process_chunk"] * 2,
        *ending,
    ]


@pytest.fixture
def call(capsys, tmp_path):
    """Returns status and printed texts of the command; ``changes`` replace its usual options."""
    usual = {
        "--agent": fakes.write_config(tmp_path),
        "--target": "de",
        "--devset": fakes.write_devset(tmp_path / "devset"),
        "--output": tmp_path / "out",
    }

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
    for command in (
        "hf download Qwen/Qwen3-ASR-1.7B --revision 7278e1e70fe206f11671096ffdd38061171dd6e5",
        "hf download Qwen/Qwen3-ForcedAligner-0.6B --revision "
        "c7cbfc2048c462b0d63a45797104fc9db3ad62b7",
        "hf download google/gemma-4-E4B-it --revision 83df0a889143b1dbfc61b591bbc639540fd9ce4c",
    ):
        assert command in error


def test_incomplete_checkpoint_is_named(call, tmp_path):
    (tmp_path / "checkpoints" / "asr" / "model.safetensors").unlink()
    status, _, error = call()
    assert status == 2
    assert "asr" in error
    assert "it lacks *.safetensors" in error


def test_failing_engine_ends_with_status_one(call, monkeypatch, tmp_path):
    def fail(self, *args):
        raise RuntimeError("the device is gone")

    monkeypatch.setattr(fakes.FakeTranslation, "draft", fail)
    status, _, error = call()
    assert status == 1
    assert "the device is gone" in error
    assert "the device is gone" in (tmp_path / "out" / "de" / "run.log").read_text()
    assert not (tmp_path / "out" / "de" / "scores.json").exists()


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
