"""Define the arguments of the three vLLM engines."""

import difflib
import glob
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from alignatt_agent.config.agent_config import ModelConfig
from alignatt_agent.config.checkpoints import find_files
from alignatt_agent.config.digests import short_digest
from alignatt_agent.config.models import AUTO, SHARE
from alignatt_agent.engine import process_files, proof
from alignatt_agent.engine.environment import on_cpu
from alignatt_agent.engine.row_requests import HeadsToCapture

MAX_CONTEXT = 4096
"""Default maximum length of a request with its answer, in tokens; a minute of audio takes 800."""

MAX_STREAMS = 32
"""Default number of concurrent requests."""

PROVED_ON_CUDA = frozenset({"translation"})
"""Engines that run on a GPU with TRITON_ATTN, because rows of other backends were not compared, and
without CUDA graphs until `alignatt prove` verifies them. Transcripts are verified from hidden
states, which CUDA graphs do not change."""

TRITON_CAPABILITIES = frozenset({10})
"""Major CUDA compute capabilities on which all engines run with TRITON_ATTN. vLLM would choose
FlashInfer, which has no kernel for Gemma-4's heads of 512 values."""

_OURS = frozenset({"model", "tokenizer", "revision", "tokenizer_revision", "additional_config"})
"""Arguments that are derived from the rest of the configuration."""

_AUDIO: Mapping[str, Any] = {
    "limit_mm_per_prompt": {"audio": 1},
    # Live audio never repeats, so caching features or prefixes is useless.
    "mm_processor_cache_gb": 0,
    "enable_prefix_caching": False,
    "skip_mm_profiling": True,
}


def _plainly_rotated(config: Any) -> Any:
    """Remove the sections of rotary positions from a Qwen3-ASR configuration.

    Audio and text advance all three sections equally, so plain rotary embedding is equivalent. On a
    CPU, it needs one operator instead of a dozen: a chunk of ``micro-low`` takes 0.9 of the time.
    """
    thinker = getattr(config, "thinker_config", None)  # vLLM also passes an empty configuration
    rotation = getattr(getattr(thinker, "text_config", None), "rope_parameters", None) or {}
    for name in ("mrope_section", "mrope_interleaved"):
        rotation.pop(name, None)
    return config


def _as_aligner(config: Any) -> Any:
    config.architectures = ["Qwen3ASRForcedAlignerForTokenClassification"]
    return _plainly_rotated(config)


_SPEECH: Mapping[str, Any] = {**_AUDIO, "enable_mm_embeds": True, "hf_overrides": _plainly_rotated}
"""Qwen3-ASR and its aligner receive features (``Features``), which vLLM treats as embeddings."""

_BY_ROLE: Mapping[str, Mapping[str, Any]] = {
    "asr": _SPEECH,
    "aligner": {**_SPEECH, "runner": "pooling", "hf_overrides": _as_aligner},
    "translation": {"enable_prefix_caching": True, "language_model_only": True},
}

_TRANSCRIBING: Mapping[str, Any] = {
    **_AUDIO,
    "limit_mm_per_prompt": {"audio": 1, "image": 0, "video": 0},
    "enable_prefix_caching": True,
    "language_model_only": False,
}
"""Arguments of a translation model that also transcribes, without image and video towers."""


def engine_arguments(
    role: str,
    model: ModelConfig,
    heads: Sequence[tuple[int, int]],
    transcribes: bool = False,
) -> dict[str, Any]:
    """Return arguments for vLLM's ``AsyncEngineArgs``; the ``engine:`` section overrides defaults.

    Only the translation model captures ``heads``. It ``transcribes`` if it is also the recognizer.
    """
    from vllm.transformers_utils.config import get_config

    _check_keys(model.engine)
    whole = get_config(model.path, trust_remote_code=False, revision=model.revision)
    text = whole.get_text_config()
    arguments: dict[str, Any] = {
        "model": _path_without_patterns(model.path),
        "revision": model.revision,
        "tokenizer_revision": model.revision,
        "dtype": model.dtype,
        "max_model_len": _default_window(text),
        "max_num_seqs": MAX_STREAMS,
        "enforce_eager": eager(role, model),
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
        **_BY_ROLE[role],
    }
    if transcribes:
        arguments.update(_TRANSCRIBING)
    captured: tuple[tuple[int, int], ...] = ()
    if role == "translation":
        captured = tuple(heads)
    if captured:
        _check_heads(captured, text)
    # Whisper's encoder processes 30 s per step, but vLLM limits the tokens of a step to those of
    # all requests.
    encoder_states = getattr(text, "max_source_positions", 0)
    limits = {**arguments, **model.engine}
    if limits["max_num_seqs"] * limits["max_model_len"] < encoder_states:
        arguments["max_num_batched_tokens"] = encoder_states
    # Transcripts are verified without rows. Encoder-decoder models have not been tested.
    verifies = role == "asr" and not getattr(text, "is_encoder_decoder", False)
    if captured or verifies:
        arguments["worker_cls"] = "alignatt_agent.engine.worker.CaptureWorker"
        arguments["additional_config"] = HeadsToCapture(captured)
    if on_cpu():
        # By default, vLLM starts the worker in a second process. On two busy cores, three engines
        # then did not start within 200 s; with one process each, they started within 41 s.
        arguments["distributed_executor_backend"] = (
            "vllm.v1.executor.uniproc_executor.UniProcExecutor"
        )
    backend = _attention_backend(role)
    if backend is not None and "attention_config" not in model.engine:
        arguments["attention_backend"] = backend
    if arguments["enforce_eager"] == AUTO:
        arguments.update(proof.chosen(model, captured))
    else:
        arguments.update(model.engine)
    if arguments.get(SHARE) == AUTO:  # without a memory plan, vLLM's default applies
        del arguments[SHARE]
    return arguments


def _check_heads(heads: Sequence[tuple[int, int]], text_config: Any) -> None:
    layers = text_config.num_hidden_layers
    count = text_config.num_attention_heads
    missing = []
    for layer, head in heads:
        if not (0 <= layer < layers and 0 <= head < count):
            missing.append((layer, head))
    if missing:
        raise ValueError(f"no attention heads {missing} in {layers} layers with {count} heads")


def _path_without_patterns(path: str) -> str:
    """Return a path that vLLM can use as the start of a glob pattern: a link if necessary.

    vLLM searches for ``PATH/*.safetensors``, where ``[1]`` in the name of a folder is a pattern.
    """
    if glob.escape(path) == path:
        return path
    links = Path(process_files.folder(), "models")
    if glob.escape(str(links)) != str(links):
        raise ValueError(
            f"vLLM cannot load files from a folder with *, ? or [ in its path, and the path of the "
            f"temporary folder {links.parent.parent} contains them too: set TMPDIR to another one"
        )
    links.mkdir(exist_ok=True)
    link = links / short_digest([path.encode()])
    with suppress(FileExistsError):  # another engine has the same model
        link.symlink_to(path)
    return str(link)


def window_of(model: ModelConfig) -> int:
    """Return the maximum length of a request with its answer, in tokens.

    Without a configured length, it is the one with which the engine starts. If the checkpoint is
    not on this machine or its ``config.json`` is not for Transformers, it is ``MAX_CONTEXT``.
    """
    written = model.engine.get("max_model_len")
    if written:
        return int(written)
    folder = find_files(model)
    if folder is None or model.runtime != "vllm":
        return MAX_CONTEXT
    return _window_of_files(folder)


@cache
def _window_of_files(folder: Path) -> int:
    from transformers import AutoConfig

    try:
        raw = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except (OSError, ValueError, KeyError):  # the start of the engine reports the reason
        return MAX_CONTEXT
    if "thinker_config" in raw:
        # Transformers ignores this section of Qwen3-ASR's published files, but vLLM reads it.
        return _default_window(SimpleNamespace(**raw["thinker_config"]["text_config"]))
    return _default_window(config.get_text_config())


def _default_window(text_config: Any) -> int:
    """Return ``MAX_CONTEXT``, or the number of positions of a model that has fewer."""
    positions = getattr(text_config, "max_position_embeddings", None)
    if not positions:  # Whisper uses another name for this value
        positions = getattr(text_config, "max_target_positions", None)
    return min(MAX_CONTEXT, int(positions or MAX_CONTEXT))


def eager(role: str, model: ModelConfig) -> Any:
    """Return whether an engine runs without compilation and CUDA graphs, or ``auto``."""
    default: Any = False
    if on_cpu():
        default = True  # compiling takes 45 s at the first start
    elif role in PROVED_ON_CUDA:
        default = AUTO
    return model.engine.get("enforce_eager", default)


def _attention_backend(role: str) -> str | None:
    """Return the attention backend of an engine, or ``None`` if vLLM chooses it."""
    from vllm.platforms import current_platform

    if not current_platform.is_cuda():
        return None
    if role in PROVED_ON_CUDA:
        return "TRITON_ATTN"
    capability = current_platform.get_device_capability()
    if capability is not None and capability.major in TRITON_CAPABILITIES:
        return "TRITON_ATTN"
    return None


def _check_keys(engine: Mapping[str, Any]) -> None:
    from vllm.engine.arg_utils import AsyncEngineArgs

    configurable = {field.name for field in fields(AsyncEngineArgs)} - _OURS
    for key in sorted(engine.keys() - configurable):
        near = difflib.get_close_matches(key, configurable, n=1, cutoff=0.0)[0]
        raise ValueError(
            f"engine: vLLM has no argument {key!r} that can be set here; did you mean {near!r}?"
        )
