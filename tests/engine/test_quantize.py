"""8-bit checkpoints: what is written, and that the rest of the product finds it."""

import json

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from alignatt_agent.config.agent_config import ModelConfig
from alignatt_agent.config.checkpoints import CheckpointError, converted, locate_one
from alignatt_agent.doctor import fetch
from lab.stand_ins.random_models import write


def test_a_converted_checkpoint_rounds_every_linear_layer(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    original = write("qwen3", tmp_path / "qwen3")
    model = ModelConfig(path=str(original), quantize="int8")
    with pytest.raises(
        CheckpointError, match="is not converted to 8 bits yet; run `alignatt fetch"
    ):
        locate_one(model)
    fetch.convert(model)
    fetch.convert(model)
    assert capsys.readouterr().out.count("converting to 8 bits") == 1
    folder = locate_one(model)
    assert folder == converted(original)
    assert {"tokenizer.json", "generation_config.json"} < {file.name for file in folder.iterdir()}
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert config["quantization_config"]["config_groups"]["group_0"]["weights"]["num_bits"] == 8
    assert config["architectures"] == ["Qwen3ForCausalLM"]
    tensors = load_file(folder / "model.safetensors")
    plain = AutoModelForCausalLM.from_pretrained(original, dtype=torch.bfloat16).state_dict()
    rounded = [name for name, value in tensors.items() if value.dtype == torch.int8]
    assert "lm_head.weight" in rounded
    assert len(rounded) == sum(name.endswith("_proj.weight") for name in plain) + 1
    for name in rounded:
        scale = tensors[f"{name}_scale"].float()
        error = (tensors[name] * scale - plain[name].float()).abs()
        assert (error <= 0.6 * scale + 0.005 * plain[name].float().abs()).all()
