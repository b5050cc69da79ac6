"""Compute the number of parameters and the cache size of a model from its ``config.json``."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from alignatt_agent.config.agent_config import ConfigError, ModelConfig
from alignatt_agent.config.checkpoints import CheckpointError, locate_one

PUBLISHED: Mapping[str, Mapping[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("published_shapes.yaml").read_text(encoding="utf-8")
)
"""Contents of the ``config.json`` of published checkpoints, by id on the Hugging Face Hub."""

_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}

_AUDIO_FRAMES_PER_S = 100

_CACHED = ("self_attn.k_proj", "self_attn.v_proj")
"""Layers whose outputs, keys and values, are stored in the cache."""


class UnknownSizeError(ConfigError):
    """The size of a model cannot be computed; the message states the reason and the fix."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of a model, as numbers of values.

    Attributes:
        weights: number of weights.
        cache: number of values that a token adds to the cache.
        hidden: width of the decoder.
        inner: width of the decoder's widest layer.
        outputs: size of the vocabulary, or number of time bins.
        largest_frame: values in the audio encoder's widest feature map per second of audio.
        value_bytes: number of bytes per value.
    """

    weights: int
    cache: int
    hidden: int
    inner: int
    outputs: int
    largest_frame: int
    value_bytes: int


def sizes_of(model: ModelConfig) -> Sizes:
    """Return the sizes of a configured model, from its files or the published dimensions."""
    return _sizes_of(model.path, model.revision, model.dtype)


@cache  # a call takes 0.1 to 0.4 s
def _sizes_of(path_or_id: str, revision: str | None, dtype: Any) -> Sizes:
    model = ModelConfig(path=path_or_id, revision=revision, dtype=dtype)
    try:
        config = json.loads((locate_one(model) / "config.json").read_text(encoding="utf-8"))
    except CheckpointError:
        config = PUBLISHED.get(model.path)
    if config is None:
        raise UnknownSizeError(
            f"{model.path} is not on this machine; expected a downloaded model (`alignatt fetch`) "
            f"or one of {', '.join(PUBLISHED)}"
        )
    try:
        return sizes(config, model.dtype)
    except (KeyError, ValueError, AttributeError) as error:
        kind = config.get("model_type")
        raise UnknownSizeError(
            f"{model.path}: cannot compute the memory of a {kind} from its config.json: {error}"
        ) from None


def sizes(config: Mapping[str, Any], dtype: str = "auto") -> Sizes:
    """Compute the sizes of a model.

    Args:
        config: contents of ``config.json``. Of a multimodal model, only the text model is counted,
            except that the audio encoders of Qwen3-ASR and Whisper are included.
        dtype: data type of computation; ``auto`` means the data type of the checkpoint.
    """
    whole = config.get("thinker_config", config)
    model, text, largest_frame = models_of(config)
    built = text.config
    bins = whole.get("classify_num")  # an aligner has time bins instead of a vocabulary
    outputs = bins or built.vocab_size
    hidden = built.hidden_size
    weights = model.num_parameters()
    if bins or not built.tie_word_embeddings:
        weights += outputs * hidden
    cache = 0
    for name, layer in text.named_modules():
        if name.endswith(_CACHED):
            cache += layer.out_features
    if not cache:
        raise ValueError("the layers do not cache keys and values")
    return Sizes(
        weights=weights,
        cache=cache,
        hidden=hidden,
        # Whisper's configuration names this width differently.
        inner=getattr(built, "intermediate_size", None) or built.decoder_ffn_dim,
        outputs=outputs,
        largest_frame=largest_frame,
        value_bytes=_value_bytes(config, dtype),
    )


def models_of(config: Mapping[str, Any]) -> tuple[Any, Any, int]:
    """Build the model without allocating weights.

    Returns the model, its decoder, and ``Sizes.largest_frame`` (0 without an encoder).
    """
    kind = config["model_type"]
    thinker = config.get("thinker_config")
    if kind == "whisper":
        model = _build(kind, config)
        return model, model.decoder, config["d_model"] * _AUDIO_FRAMES_PER_S
    if thinker is not None:
        audio = thinker["audio_config"]
        parts = {"audio_config": _untyped(audio), "text_config": _untyped(thinker["text_config"])}
        model = _build(kind, parts)
        # The first of three convolutions halves the number of mel bands and of frames.
        halves = (audio["num_mel_bins"] // 2) * (_AUDIO_FRAMES_PER_S // 2)
        return model, model.language_model, audio["downsample_hidden_size"] * halves
    text = config.get("text_config", config)
    model = _build(text.get("model_type", f"{kind}_text"), text)
    return model, model, 0


def _build(kind: str, settings: Mapping[str, Any]) -> Any:
    import torch
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    # AutoConfig returns vLLM's class if vLLM has already loaded a Qwen3-ASR model.
    config = getattr(transformers, CONFIG_MAPPING_NAMES[kind])(**_untyped(settings))
    with torch.device("meta"):
        return transformers.AutoModel.from_config(config)


def _untyped(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key != "model_type"}


def _value_bytes(config: Mapping[str, Any], dtype: str) -> int:
    if dtype != "auto":
        return _BYTES[dtype]
    whole = config.get("thinker_config", config)
    text = whole.get("text_config", whole)
    for part in (text, whole):
        written = part.get("dtype") or part.get("torch_dtype")
        if written:
            return _BYTES[written]
    return _BYTES["bfloat16"]
