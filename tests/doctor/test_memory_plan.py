"""Sizes and shares of memory, computed from dimensions: held against files and Transformers."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSpeechSeq2Seq

from alignatt_agent.cascade import runtime
from alignatt_agent.cli import main
from alignatt_agent.config.agent_config import ConfigError, ModelConfig, load_config
from alignatt_agent.config.checkpoints import CheckpointError
from alignatt_agent.config.resources import CHECKOUT_ROOT
from alignatt_agent.engine.memory_plan import FREE, plan
from alignatt_agent.engine.model_sizes import PUBLISHED, UnknownSizeError, sizes, sizes_of
from alignatt_agent.fetch.cli import models_of
from alignatt_agent.machine.nvidia import GIB, Gpu
from lab.stand_ins.__main__ import real_configurations

SPEECH = {name for name, config in PUBLISHED.items() if "thinker_config" in config}


@pytest.mark.parametrize(
    ("model", "weights", "cache"),
    [
        ("google/gemma-4-E4B-it", (13.85, 13.95), 57_344),
        ("Qwen/Qwen3-ASR-1.7B", (3.79, 4.4), 114_688),
        ("Qwen/Qwen3-ForcedAligner-0.6B", (1.65, 1.75), 114_688),
        ("xiaomi-research/MiLMMT-46-4B-v0.1", (7.15, 7.25), 139_264),
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


def test_types_and_unknown_models():
    assert sizes_of(ModelConfig(path="Qwen/Qwen3-1.7B", dtype="float32")).value_bytes == 4
    assert sizes_of(ModelConfig(path="Qwen/Qwen3-1.7B")).value_bytes == 2
    with pytest.raises(UnknownSizeError, match=r"nobody/nothing is not on this machine; .*fetch"):
        sizes_of(ModelConfig(path="nobody/nothing"))


CARDS = (24, 32, 40, 48, 80, 96, 141)


@pytest.mark.parametrize("name", real_configurations())
def test_automatic_shares_fit_every_card(name):
    """Each engine has what it needs, and all of them with their encoders leave ``FREE``."""
    config = load_config(name)
    for gib in CARDS:
        found = plan(config, gib * GIB)
        size = least = 0.0
        for role, need in found.needs.items():
            share = found.shares.get(role, 1)
            assert share * found.total >= need.least
            size += share * found.total + need.encoder
            least += need.least + need.encoder
            engine = getattr(found.models, role).engine
            assert engine["gpu_memory_utilization"] == found.shares.get(role, "auto")
        if found.shares:
            assert size <= (1 - FREE) * found.total
        else:  # shares are thousandths
            assert least > (1 - FREE - 0.003) * found.total
    assert found.shares


@pytest.mark.parametrize(
    ("name", "gib", "free", "asr", "context"),
    [
        ("default-low", 24, None, "Qwen/Qwen3-ASR-0.6B", None),
        ("default-low", 22.5, None, "Qwen/Qwen3-ASR-0.6B", 2048),
        ("default-low", 25, None, "Qwen/Qwen3-ASR-1.7B", 2048),
        ("default-low", 32, None, "Qwen/Qwen3-ASR-1.7B", None),
        ("default-low", 80, 23, "Qwen/Qwen3-ASR-0.6B", None),
        ("iwslt26-low", 32, None, "Qwen/Qwen3-ASR-1.7B", None),
        ("iwslt26-low", 24, None, None, None),
        ("translategemma-12b-low", 24, None, None, None),
        ("hy-mt-1.8b-low", 16, None, "Qwen/Qwen3-ASR-1.7B", None),
    ],
)
def test_recognizer_and_context_are_the_largest_that_fit(name, gib, free, asr, context):
    found = plan(load_config(name), gib * GIB, free and free * GIB)
    assert bool(found.shares) == bool(asr)
    if asr:
        assert found.models.asr.path == asr
        assert found.models.translation.engine.get("max_model_len") == context


def test_written_shares_stay_and_the_others_are_planned():
    key = "models.translation.engine.gpu_memory_utilization"
    found = plan(load_config("default-low", {key: 0.6}), 80 * GIB)
    assert found.shares["translation"] == 0.6
    assert found.models.translation.engine["gpu_memory_utilization"] == 0.6
    assert 0 < sum(found.shares.values()) - 0.6 < 0.35
    assert not plan(load_config("default-low", {key: 0.9}), 80 * GIB).shares


def test_a_card_is_planned_once_and_the_choice_is_resolved(monkeypatch, capsys):
    asked = []
    card = Gpu("NVIDIA Test", "580.1", 23 * GIB, 24 * GIB, 8.9)
    monkeypatch.setattr(runtime, "installed", lambda _: None)
    monkeypatch.setattr(runtime, "gpus", lambda: asked.append(1) or (card,))
    monkeypatch.setattr("alignatt_agent.config.resolved.locate", lambda models: models)
    config, here = load_config("default-low"), runtime.Runtime()
    for _ in range(2):
        found = here.resolve(config)
        assert found.config.models.asr.path == found.checkpoints.asr.path == "Qwen/Qwen3-ASR-0.6B"
        assert found.config.models.asr.engine["gpu_memory_utilization"] == "auto"
        assert 0.1 < found.checkpoints.asr.engine["gpu_memory_utilization"] < 0.2
    assert len(asked) == 1
    with pytest.raises(ConfigError, match="NVIDIA Test: the engines need 23.9 GiB .* 22.8 GiB are"):
        here.resolve(load_config("default-low", {"speech.max_tail_s": 120}))
    assert capsys.readouterr().err.count("NVIDIA Test: memory plan computed for 24.0 GiB:") == 1
    fits = r"Test: the engines need 29.* configurations that fit: .*hy-mt-1.8b-low.* GPU of 32 GiB"
    with pytest.raises(ConfigError, match=fits):
        here.resolve(load_config("translategemma-12b-low"))
    paths = [model.path for model in models_of(["default-low", "translategemma-12b-low"])]
    assert paths[0] == "Qwen/Qwen3-ASR-0.6B"
    assert "google/translategemma-12b-it" in paths  # as written: it does not fit
    monkeypatch.undo()
    nowhere = load_config("default-low", {"models.translation.path": "nobody/nothing"})
    with pytest.raises(CheckpointError, match="alignatt fetch nobody/nothing"):
        here.resolve(nowhere.model_copy(update={"head_sets": {}}))


def test_the_command(capsys):
    for gib in CARDS:
        assert main(["doctor", "--config", "default-low", "--gpu", str(gib)]) == 0
        out = capsys.readouterr().out
        assert out.startswith(f"memory plan computed for {gib}.0 GiB:\n  asr Qwen/Qwen3-ASR-")
        assert out.endswith("requests of up to 4,096\n  fits\n")
    assert main(["doctor", "--config", "default-low", "--gpu", "16"]) == 1
    assert "does not fit: the engines need 20." in capsys.readouterr().out
    assert main(["doctor", "--config", "default-low", "--gpu", "-3"]) == 2


def test_a_class_that_vllm_registered_changes_nothing(monkeypatch):
    registered = AutoConfig.for_model("qwen3_asr")

    class Theirs(type(registered)):
        def __init__(self, **settings):
            raise AttributeError("no attribute 'audio_config'")

    before = sizes_of(ModelConfig(path="Qwen/Qwen3-ASR-1.7B", dtype="bfloat16"))
    mapping = "transformers.models.auto.configuration_auto.CONFIG_MAPPING._extra_content"
    monkeypatch.setattr(mapping, {"qwen3_asr": Theirs})
    assert sizes_of(ModelConfig(path="Qwen/Qwen3-ASR-1.7B", dtype="bfloat16")) == before
