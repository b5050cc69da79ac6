"""Sizes and shares of memory, computed from dimensions: held against files and Transformers."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSpeechSeq2Seq

from alignatt_agent.cli import main
from alignatt_agent.config.agent_config import ModelConfig, load_config
from alignatt_agent.config.resources import CHECKOUT_ROOT
from alignatt_agent.doctor.machine_checks import GIB
from alignatt_agent.doctor.memory_plan import FREE, plan
from alignatt_agent.doctor.model_sizes import PUBLISHED, UnknownSizeError, sizes, sizes_of
from lab.stand_ins.__main__ import real_configurations

SPEECH = {name for name, config in PUBLISHED.items() if "thinker_config" in config}


@pytest.mark.parametrize(
    ("model", "weights", "cache"),
    [
        ("google/gemma-4-E4B-it", (13.85, 13.95), 57_344),
        ("Qwen/Qwen3-ASR-1.7B", (3.79, 4.4), 114_688),
        ("Qwen/Qwen3-ForcedAligner-0.6B", (1.65, 1.75), 114_688),
        ("xiaomi-research/MiLMMT-46-4B-v0.1", (7.15, 7.25), 139_264),
        ("tencent/HY-MT1.5-7B", (13.9, 14.05), 131_072),
        ("utter-project/EuroLLM-9B-Instruct", (16.95, 17.1), 172_032),
    ],
)
def test_published_models(model, weights, cache):
    """GiB of weights and bytes of a cached token, as an audit computed them by hand."""
    found = sizes_of(ModelConfig(path=model, dtype="bfloat16"))
    assert weights[0] <= 2 * found.weights / GIB <= weights[1]
    assert 2 * found.cache == cache


def parameters(model):
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("model", sorted(PUBLISHED.keys() - SPEECH))
def test_published_models_against_transformers(model):
    """Transformers builds the whole model, without memory for its weights."""
    config = {**PUBLISHED[model]}
    kind = config.pop("model_type")
    text = dict(config.pop("text_config", config))
    kind = {"gemma4": "gemma4_text", "gemma3": "gemma3_text"}.get(kind, kind)
    build = AutoModelForSpeechSeq2Seq if kind == "whisper" else AutoModelForCausalLM
    with torch.device("meta"):
        theirs = parameters(build.from_config(AutoConfig.for_model(kind, **text)))
    assert sizes(PUBLISHED[model]).weights == pytest.approx(theirs, rel=1e-3)


@pytest.mark.parametrize("name", ["qwen3-asr", "qwen3-aligner"])
def test_embedded_models_against_their_files(name):
    folder = CHECKOUT_ROOT / "micro_models" / name
    found = sizes_of(ModelConfig(path=str(folder)))
    size = (folder / "model.safetensors").stat().st_size
    assert found.value_bytes * found.weights == pytest.approx(size, rel=0.02)


def test_a_published_configuration_file():
    folder = os.environ.get("ALIGNATT_FIXTURES")
    file = Path(folder or ".").parent / "published" / "gemma-4-E2B-it.config.json"
    if folder is None or not file.is_file():
        pytest.skip("needs a published config.json beside the folder that ALIGNATT_FIXTURES names")
    config = json.loads(file.read_text(encoding="utf-8"))
    with torch.device("meta"):
        text = AutoConfig.for_model(**config["text_config"])
        theirs = parameters(AutoModelForCausalLM.from_config(text))
    assert sizes(config).weights == pytest.approx(theirs, rel=1e-3)
    assert 2 * sizes(config).cache == 2 * (12 * 2 * 256 + 3 * 2 * 512)


def test_types_and_unknown_models():
    assert sizes_of(ModelConfig(path="Qwen/Qwen3-1.7B", dtype="float32")).value_bytes == 4
    assert sizes_of(ModelConfig(path="Qwen/Qwen3-1.7B")).value_bytes == 2
    with pytest.raises(UnknownSizeError, match=r"nobody/nothing is not on this machine, .*fetch"):
        sizes_of(ModelConfig(path="nobody/nothing"))


@pytest.mark.parametrize("name", real_configurations())
def test_written_shares_fit_the_cards_they_are_written_for(name):
    for gib in (23.5, 24, 32) if "24gb" in name else (39.4, 79):
        found = plan(load_config(name), gib * GIB)
        assert list(found.problems()) == []
        assert sum(found.shares.values()) <= 1 - FREE


@pytest.mark.parametrize("gib", [24, 32, 40, 80])
def test_computed_shares_hold_what_they_are_for(gib):
    for name in ("default-low", "default-24gb-low", "hy-mt-1.8b-low"):
        found = plan(load_config(name), gib * GIB)
        assert bool(found.shares) == (found.least <= 1 - FREE - 0.03)  # rounded up to hundredths
        for role, share in found.shares.items():
            assert share * found.total >= found.needs[role].least
    assert not plan(load_config("default-low"), 24 * GIB).shares


def test_the_command(capsys):
    assert main(["doctor", "--config", "default-24gb-low", "--gpu", "24"]) == 0
    out = capsys.readouterr().out
    assert "fits; --set models.asr.engine.gpu_memory_utilization=0.15" in out
    assert main(["doctor", "--config", "default-low", "--gpu", "24"]) == 1
    out = capsys.readouterr().out
    assert "does not fit" in out
    assert "as written: models.asr.engine.gpu_memory_utilization: 0.17 of 24 GiB is less" in out
    assert main(["doctor", "--config", "default-low", "--gpu", "-3"]) == 2


def test_what_is_computed_for_a_configuration_is_printed(capsys):
    assert main(["doctor", "--config", "default-low", "--predict"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"h200 +0\.26 +200\n", out)
    assert out.rstrip().endswith("chunks of 500 ms; no GPU has confirmed these figures")
    assert main(["doctor", "--config", "micro-low", "--predict"]) == 2
    assert "nothing is computed for micro-low, only for " in capsys.readouterr().err


def test_a_class_that_vllm_registered_changes_nothing(monkeypatch):
    registered = AutoConfig.for_model("qwen3_asr")

    class Theirs(type(registered)):
        def __init__(self, **settings):
            raise AttributeError("no attribute 'audio_config'")

    before = sizes_of(ModelConfig(path="Qwen/Qwen3-ASR-1.7B", dtype="bfloat16"))
    mapping = "transformers.models.auto.configuration_auto.CONFIG_MAPPING._extra_content"
    monkeypatch.setattr(mapping, {"qwen3_asr": Theirs})
    assert sizes_of(ModelConfig(path="Qwen/Qwen3-ASR-1.7B", dtype="bfloat16")) == before
