"""8-bit checkpoints: their content, and how the rest of the package finds them."""

import json
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from unittest.mock import Mock

import pytest
import torch
from compressed_tensors.quantization import QuantizationArgs
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
from vllm.model_executor.kernels.linear import CPUInt8ScaledMMLinearKernel, init_int8_linear_kernel
from vllm.model_executor.kernels.linear.scaled_mm import cpu as vllm_cpu_kernels

from alignatt_agent.config.agent_config import ModelConfig
from alignatt_agent.config.checkpoints import CheckpointError, converted, locate_one
from alignatt_agent.doctor.parity_check import Gap
from alignatt_agent.engine import int8_exactness, int8_kernels
from alignatt_agent.engine import transformers_engine as by_transformers
from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.engine.int8_kernels import (
    FbgemmInt8LinearKernel,
    FbgemmProduct,
    Float32Int8LinearKernel,
)
from alignatt_agent.engine.quantize import quantize
from alignatt_agent.engine.start import start_model
from alignatt_agent.fetch.conversion import convert
from alignatt_agent.types.engines import DraftRequest, Readout
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
        scale = tensors[f"{name}_scale"]
        assert scale.dtype == torch.float32
        error = (tensors[name] * scale - plain[name].float()).abs()
        assert (error <= 0.5001 * scale).all()


def test_gguf_files_of_one_folder_are_converted_into_separate_folders(tmp_path):
    for name in ("q4.gguf", "q8.gguf"):
        (tmp_path / name).write_bytes(b"equal content")
    folders = {converted(tmp_path, "q4.gguf"), converted(tmp_path, "q8.gguf"), converted(tmp_path)}
    assert len(folders) == 3
    before = converted(tmp_path, "q4.gguf")
    (tmp_path / "q8.gguf").write_bytes(b"a newer file")
    assert converted(tmp_path, "q4.gguf") == before


def test_two_conversions_at_a_time_produce_one_complete_folder(tmp_path):
    original = write("qwen3", tmp_path / "m")
    folder = tmp_path / "int8" / "result"
    # In threads, the patches of from_pretrained overlap, and later models are built without ties.
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        calls = [processes.submit(quantize, original, folder) for _ in range(2)]
    for call in calls:
        call.result()
    assert {file.name for file in folder.parent.iterdir()} == {"result"}
    assert {"model.safetensors", "config.json", "tokenizer.json"} <= {
        file.name for file in folder.iterdir()
    }


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_vllm_rounds_activations_as_the_reference_does(dtype):
    from vllm import _custom_ops as custom_ops

    inputs = torch.randn(64, 1536, dtype=dtype, generator=torch.Generator().manual_seed(1))
    codes, scales, _ = custom_ops.onednn_scaled_int8_quant(inputs, None, None, True)
    expected_codes, expected_scales = int8_exactness.rounded(inputs, int8_exactness.VLLM_LEVELS)
    assert torch.equal(codes.float(), expected_codes)
    assert torch.equal(scales.view(-1, 1), expected_scales)


def test_activations_in_fp8_are_not_rounded():
    layer = torch.nn.Linear(4, 4)  # a checkpoint in FP8 has another grid
    fp8 = QuantizationArgs(num_bits=8, type="float", strategy="token", dynamic=True)
    layer.quantization_scheme = Mock(input_activations=fp8)
    by_transformers.compute_like_kernels(layer, torch.bfloat16)
    assert not layer._forward_pre_hooks


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_the_reference_rounds_only_inputs_and_results(tmp_path, monkeypatch, dtype):
    """Transformers alone would also round the scales and the products of inputs with them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    convert(ModelConfig(path=str(original := write("qwen3", tmp_path / "m")), quantize="int8"))
    folder = converted(original)
    engine = by_transformers.TransformersEngine(str(folder), dtype=dtype)
    engine.logprobs(make_prompt(1, 60, 5, 20), [1])  # the first pass decompresses the weights
    stored = load_file(folder / "model.safetensors")
    name = "model.layers.0.mlp.gate_proj"
    weight, scale = stored[f"{name}.weight"], stored[f"{name}.weight_scale"]
    random = torch.Generator().manual_seed(1)
    inputs = torch.randn(5, weight.shape[1], generator=random).to(getattr(torch, dtype))
    codes, token_scale = int8_exactness.rounded(inputs, int8_exactness.levels())
    exact = (codes.double() @ weight.double().T) * scale.double().T * token_scale.double()
    output = engine.model.get_submodule(name)(inputs)
    torch.testing.assert_close(output, exact.to(output.dtype))
    assert output.dtype == inputs.dtype == engine.model.get_input_embeddings().weight.dtype


@pytest.mark.parametrize("tokens", [1, 3, 17, 64])
def test_fbgemm_computes_exact_integer_products(tokens):
    weight, scale, inputs = layer_of(outputs=192, inputs=96, tokens=tokens)
    inputs[0] = 1.0  # all products have the largest values
    codes, token_scale = int8_exactness.rounded(inputs, int8_exactness.FBGEMM_LEVELS)
    integers = codes.double() @ weight.double().T
    assert integers.abs().max() == 96 * 127 * int8_exactness.FBGEMM_LEVELS
    product = FbgemmProduct(weight, scale)(inputs)
    expected = integers.float() * scale.T * token_scale
    torch.testing.assert_close(product, expected, rtol=3e-7, atol=0)


def test_fbgemm_answers_the_same_alone_and_in_a_batch():
    weight, scale, inputs = layer_of(outputs=192, inputs=96, tokens=17)
    product = FbgemmProduct(weight, scale)
    alone = torch.cat([product(row[None]) for row in inputs])
    assert torch.equal(product(inputs), alone)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_vllm_chooses_fbgemm_where_its_own_kernel_is_inexact(monkeypatch, dtype):
    monkeypatch.setattr(int8_kernels, "vllm_is_exact", lambda: False)
    int8_kernels.register()
    weight, scale, inputs = layer_of(outputs=192, inputs=96, tokens=17)
    bias = torch.linspace(-1, 1, 192).to(dtype)
    layer = torch.nn.Module()
    layer.weight = torch.nn.Parameter(weight, requires_grad=False)
    layer.weight_scale = torch.nn.Parameter(scale, requires_grad=False)
    kernel = int8_linear_kernel()
    assert isinstance(kernel, FbgemmInt8LinearKernel)
    kernel.process_weights_after_loading(layer)
    output = kernel.apply_weights(layer, inputs.to(dtype), bias)
    codes, token_scale = int8_exactness.rounded(inputs.to(dtype), int8_exactness.FBGEMM_LEVELS)
    expected = (codes @ weight.float().T) * scale.T * token_scale + bias.float()
    steps = {torch.bfloat16: 2**-7, torch.float32: 2**-18}  # sums are rounded in another order
    torch.testing.assert_close(output, expected.to(dtype), rtol=steps[dtype], atol=2e-6)


def test_the_processor_is_tested_whatever_the_default_type_is():
    expected = int8_exactness.vllm_is_exact()
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert int8_exactness.vllm_is_exact.__wrapped__() == expected
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.fixture
def vllm_exact(monkeypatch):
    monkeypatch.setattr(int8_kernels, "vllm_is_exact", lambda: True)
    int8_kernels.register()
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    ("dtype", "kernel"),
    [(torch.bfloat16, CPUInt8ScaledMMLinearKernel), (torch.float32, Float32Int8LinearKernel)],
)
def test_vllm_keeps_its_own_choice_in_16_bits(vllm_exact, dtype, kernel):
    torch.set_default_dtype(dtype)
    assert type(int8_linear_kernel()) is kernel


@pytest.mark.skipif(not int8_exactness.vllm_is_exact(), reason="oneDNN is inexact here")
def test_float32_is_multiplied_by_onednn_also_with_amx(vllm_exact, monkeypatch):
    """On a processor with AMX, vLLM would choose a kernel for 16-bit inputs."""
    monkeypatch.setattr(vllm_cpu_kernels, "check_cpu_sgl_kernel", lambda *_: True)
    weight, scale, inputs = layer_of(outputs=192, inputs=96, tokens=17)
    layer = torch.nn.Module()
    layer.logical_widths = [192]
    layer.weight = torch.nn.Parameter(weight, requires_grad=False)
    layer.weight_scale = torch.nn.Parameter(scale, requires_grad=False)
    layer.input_scale = layer.input_zero_point = layer.azp_adj = None
    kernel = int8_linear_kernel()
    kernel.process_weights_after_loading(layer)
    codes, token_scale = int8_exactness.rounded(inputs, int8_exactness.VLLM_LEVELS)
    exact = (codes.double() @ weight.double().T) * scale.double().T * token_scale.double()
    output = kernel.apply_weights(layer, inputs)
    torch.testing.assert_close(output, exact.float(), rtol=3e-6, atol=1e-6)


def int8_linear_kernel():
    """Return the kernel that vLLM chooses for the layers of our 8-bit checkpoints."""
    return init_int8_linear_kernel(
        is_channelwise=True, is_static_input_scheme=False, input_symmetric=True, module_name="test"
    )


def layer_of(outputs: int, inputs: int, tokens: int):
    """Return int8 weights with scales, and activations of which one feature is large."""
    random = torch.Generator().manual_seed(1)
    weight = torch.randint(-127, 128, (outputs, inputs), generator=random, dtype=torch.int8)
    weight[0] = 127
    scale = torch.rand(outputs, 1, generator=random) * 1e-3 + 1e-4
    activations = torch.randn(tokens, inputs, generator=random)
    activations[:, 3] *= 20
    return weight, scale, activations


KERNELS = [False, True] if int8_exactness.vllm_is_exact() else [False]
"""Values of ``vllm_is_exact`` for the kernels that are exact on this processor."""


@pytest.mark.parametrize("exact", KERNELS)
def test_rows_of_8_bits_are_those_of_transformers(tmp_path, monkeypatch, request, exact):
    if not exact:  # the engine then finds that vLLM's kernel is inexact, on any processor
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    monkeypatch.setattr(int8_exactness, "vllm_is_exact", lambda: exact)
    monkeypatch.setattr(int8_exactness, "levels", int8_exactness.levels.__wrapped__)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    convert(ModelConfig(path=str(original := write("qwen3", tmp_path / "m")), quantize="int8"))
    model = ModelConfig(path=str(converted(original)), dtype="float32")
    heads = ((0, 1), (1, 6), (2, 3), (3, 7))
    readout, gap = Readout(heads, "emitted"), Gap()
    reference = by_transformers.TransformersEngine(model.path)
    engine = DraftEngine(served := start_model("translation", model, heads), heads)
    request.addfinalizer(served.shutdown)
    for prompt in (make_prompt(20 + k, 60 + 20 * k, 3, 30) for k in range(4)):
        ids = engine.draft(DraftRequest(prompt, 8, readout)).token_ids
        gap.add(engine.rows(prompt, ids, readout), reference.rows(prompt, ids, readout))
    # Sums in another order round a few activations differently, so single rows differ.
    assert gap.mean < 6e-4, gap.mean
