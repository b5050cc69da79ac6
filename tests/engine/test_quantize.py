"""8-bit checkpoints: their content, and how the rest of the package finds them."""

import json
from unittest.mock import Mock

import pytest
import torch
from compressed_tensors.quantization import QuantizationArgs
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from alignatt_agent.config.agent_config import ModelConfig
from alignatt_agent.config.checkpoints import CheckpointError, converted, locate_one
from alignatt_agent.doctor.parity_check import Gap
from alignatt_agent.engine import transformers_engine as by_transformers
from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.engine.start import start_model
from alignatt_agent.fetch.conversion import convert
from alignatt_agent.types.engines import Readout
from lab.stand_ins.random_models import write
from tests.fixtures.engines import make_prompt


def test_a_converted_checkpoint_rounds_every_linear_layer(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    original = write("qwen3", tmp_path / "qwen3")
    model = ModelConfig(path=str(original), quantize="int8")
    with pytest.raises(CheckpointError, match="not been converted to 8 bits; run `alignatt fetch"):
        locate_one(model)
    convert(model)
    convert(model)
    assert capsys.readouterr().out.count("converting to 8 bits") == 1
    folder = locate_one(model)
    assert folder == converted(original)
    assert {"tokenizer.json", "generation_config.json"} < {file.name for file in folder.iterdir()}
    config = json.loads((folder / "config.json").read_text("utf-8"))
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


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_the_reference_rounds_activations_as_the_kernel_does(dtype):
    from vllm import _custom_ops as custom_ops

    inputs = torch.randn(64, 1536, dtype=dtype, generator=torch.Generator().manual_seed(1))
    codes, scales, _ = custom_ops.onednn_scaled_int8_quant(inputs, None, None, True)
    assert torch.equal(by_transformers.rounded(inputs), (codes * scales.view(-1, 1)).to(dtype))
    layer = torch.nn.Linear(4, 4)  # a checkpoint in FP8 has another grid
    fp8 = QuantizationArgs(num_bits=8, type="float", strategy="token", dynamic=True)
    layer.quantization_scheme = Mock(input_activations=fp8)
    by_transformers.round_activations(layer)
    assert not layer._forward_pre_hooks


def test_rows_of_8_bits_are_those_of_transformers(tmp_path, monkeypatch, request):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    convert(ModelConfig(path=str(original := write("qwen3", tmp_path / "m")), quantize="int8"))
    model = ModelConfig(path=str(converted(original)), dtype="float32")
    heads = ((0, 1), (1, 6), (2, 3), (3, 7))
    readout, gap = Readout(heads, "emitted"), Gap()
    reference = by_transformers.TransformersEngine(model.path)
    engine = DraftEngine(served := start_model("translation", model, heads), heads)
    request.addfinalizer(served.shutdown)
    for prompt in (make_prompt(20 + k, 60 + 20 * k, 3, 30) for k in range(4)):
        ids = engine.draft(prompt, 8, readout).token_ids
        gap.add(engine.rows(prompt, ids, readout), reference.rows(prompt, ids, readout))
    # Sums in another order round a few activations differently, so single rows differ.
    assert gap.mean < 6e-4
