"""Parameters and cache of a model, computed from its ``config.json``: nothing is loaded.

Norms and biases are left out: less than 0.1 % of any model here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alignatt_agent.config.agent_config import ModelConfig
from alignatt_agent.config.checkpoints import CheckpointError, locate_one
from alignatt_agent.doctor.published_shapes import PUBLISHED
from alignatt_agent.types import AlignAttError

_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}

_AUDIO_SUBSAMPLING = 8
"""Qwen3-ASR's three convolutions halve time and mel bands each."""

_AUDIO_FRAMES_PER_S = 100


class UnknownSizeError(AlignAttError, ValueError):
    """The size of a model cannot be computed; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a model holds, in numbers of values.

    Attributes:
        decoder: weights that every decoding step reads: its layers and its output.
        tables: weights of which a step reads one row: embeddings that are not the output, too.
        tower: weights of the audio encoder.
        cache: values that a token leaves in the cache.
        layers: of the decoder.
        hidden: width of the decoder.
        inner: width of its largest layer.
        outputs: size of the vocabulary, or number of time bins.
        largest_frame: values of the audio encoder's widest feature map, for a second of audio.
        value_bytes: bytes of a value of the checkpoint.
    """

    decoder: int
    tables: int
    tower: int
    cache: int
    layers: int
    hidden: int
    inner: int
    outputs: int
    largest_frame: int = 0
    value_bytes: int = 2

    @property
    def weights(self) -> int:
        """All weights."""
        return self.decoder + self.tables + self.tower


def sizes_of(model: ModelConfig) -> Sizes:
    """Return the sizes of a configured model, from its files or from published dimensions.

    Raises:
        UnknownSizeError: the model is neither on this machine nor among the known ones, or is of
            a kind whose sizes cannot be computed.
    """
    try:
        path: Path | None = locate_one(model) / "config.json"
    except CheckpointError:
        path = None
    if path is not None:
        config = json.loads(path.read_text(encoding="utf-8"))
    elif model.path in PUBLISHED:
        config = PUBLISHED[model.path]
    else:
        raise UnknownSizeError(
            f"{model.path} is not on this machine, and its dimensions are not among those of "
            f"{', '.join(PUBLISHED)}; fetch it"
        )
    try:
        return sizes(config, model.dtype)
    except KeyError as error:
        kind = config.get("model_type")
        raise UnknownSizeError(
            f"{model.path}: the memory of a {kind} cannot be computed, its config.json has no "
            f"{error}"
        ) from None


def sizes(config: Mapping[str, Any], dtype: str = "auto") -> Sizes:
    """Compute the sizes of a model.

    Args:
        config: its ``config.json``; of Gemma the text model counts, of Qwen3-ASR text model and
            audio encoder.
        dtype: computation type; ``auto`` is the checkpoint's.

    Raises:
        KeyError: an entry is missing.
    """
    if config.get("model_type") == "whisper":
        return _whisper(config, dtype)
    whole = config.get("thinker_config", config)
    text = whole.get("text_config", whole)
    outputs = whole.get("classify_num") or text["vocab_size"]
    layers, hidden, cache = text["num_hidden_layers"], text["hidden_size"], 0
    own = layers - (text.get("num_kv_shared_layers") or 0)
    kinds = text.get("layer_types") or ["full_attention"] * layers
    thin = text.get("hidden_size_per_layer_input") or 0
    matrices = 0
    for layer, kind in enumerate(kinds):
        head, keys = _head(text, kind)
        matrices += 2 * hidden * text["num_attention_heads"] * head
        if layer < own:
            matrices += 2 * hidden * keys * head
            cache += 2 * keys * head
        wide = 2 if layer >= own and text.get("use_double_wide_mlp") else 1
        matrices += 3 * hidden * wide * text["intermediate_size"]
        matrices += 2 * hidden * thin
    embeddings = text["vocab_size"] * hidden
    # What ties an aligner's embeddings to is the output that its time bins replaced.
    tied = text.get("tie_word_embeddings", True) and "classify_num" not in whole
    per_layer = text.get("vocab_size_per_layer_input", 0) * layers * thin
    tower, frame = _tower(whole["audio_config"]) if "thinker_config" in config else (0, 0)
    return Sizes(
        decoder=matrices + outputs * hidden + hidden * layers * thin,
        tables=per_layer + (0 if tied else embeddings),
        tower=tower,
        cache=cache,
        layers=layers,
        hidden=hidden,
        inner=text["intermediate_size"],
        outputs=outputs,
        largest_frame=frame,
        value_bytes=_value_bytes(config, dtype),
    )


def _head(text: Mapping[str, Any], kind: str) -> tuple[int, int]:
    """Head size and key heads of a layer."""
    head = text.get("head_dim") or text["hidden_size"] // text["num_attention_heads"]
    keys = text.get("num_key_value_heads") or text["num_attention_heads"]
    if kind == "full_attention":
        head = text.get("global_head_dim") or head
        keys = text.get("num_global_key_value_heads") or keys
    return head, keys


def _tower(audio: Mapping[str, Any]) -> tuple[int, int]:
    """Weights of Qwen3-ASR's audio encoder, and values of its first feature map a second."""
    width, channels = audio["d_model"], audio["downsample_hidden_size"]
    bands = -(-audio["num_mel_bins"] // _AUDIO_SUBSAMPLING)
    convolutions = 9 * channels + 2 * 9 * channels**2 + channels * bands * width
    layer = 4 * width**2 + 2 * width * audio["encoder_ffn_dim"]
    projection = width**2 + width * audio["output_dim"]
    frame = channels * (audio["num_mel_bins"] // 2) * (_AUDIO_FRAMES_PER_S // 2)
    return audio["encoder_layers"] * layer + convolutions + projection, frame


def _whisper(config: Mapping[str, Any], dtype: str) -> Sizes:
    width, layers = config["d_model"], config["decoder_layers"]
    encoder = config["encoder_layers"] * (4 * width**2 + 2 * width * config["encoder_ffn_dim"])
    encoder += 3 * config["num_mel_bins"] * width + 3 * width**2
    encoder += config["max_source_positions"] * width
    decoder = layers * (8 * width**2 + 2 * width * config["decoder_ffn_dim"])
    return Sizes(
        decoder=decoder + config["vocab_size"] * width,
        tables=config["max_target_positions"] * width,
        tower=encoder,
        cache=2 * layers * width,
        layers=layers,
        hidden=width,
        inner=config["decoder_ffn_dim"],
        outputs=config["vocab_size"],
        largest_frame=width * _AUDIO_FRAMES_PER_S,
        value_bytes=_value_bytes(config, dtype),
    )


def _value_bytes(config: Mapping[str, Any], dtype: str) -> int:
    whole = config.get("thinker_config", config)
    text = whole.get("text_config", whole)
    written = [part.get(key) for part in (text, whole) for key in ("dtype", "torch_dtype")]
    wanted = next((x for x in written if x), "bfloat16") if dtype == "auto" else dtype
    return _BYTES[wanted]
