"""Random checkpoints in the files and classes of the published ones.

The real configurations start on them, with paths and types replaced. They stand in for weights that
are not available, never for what the weights know.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig, PreTrainedTokenizerFast
from transformers.models.gemma3 import Gemma3Config, Gemma3ForConditionalGeneration
from transformers.models.gemma4 import Gemma4Config, Gemma4ForConditionalGeneration

from alignatt_agent.doctor.model_sizes import PUBLISHED
from lab.stand_ins import random_models, templates
from lab.stand_ins.random_models import TABLE
from lab.stand_ins.speech_layout import write_json

MEDIA: Mapping[str, str] = TABLE["media"]

_PROCESSOR = {
    "processor_class": "Gemma4Processor",
    "feature_extractor": {"feature_extractor_type": "Gemma4AudioFeatureExtractor"},
    "image_processor": {"image_processor_type": "Gemma4ImageProcessor"},
    "video_processor": {"video_processor_type": "Gemma4VideoProcessor"},
}

_SHALLOW = 12
"""Layers up to which the queries of Gemma-4 stay as wide as they are drawn."""

_CALM = 0.3
"""Factor on the queries of deeper ones, whose scores are not scaled down: with random weights each
layer attends to one token, and 42 of them multiply the rounding of the first to 5e-4 (measured)."""

_KEPT = ("num_hidden_layers", "num_attention_heads", "num_key_value_heads")
"""Published dimensions that a stand-in keeps, with the kinds of its layers."""

_FAMILIES = {"hunyuan_v1_dense": "hunyuan"}


def _shape(config: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    kind, text = config["model_type"], config.get("text_config", config)
    kept = [*_KEPT, *(key for key in ("layer_types", "num_kv_shared_layers") if key in text)]
    # With the wide weights of shallow models, rounding grows too large in as many layers.
    return _FAMILIES.get(kind, kind), {
        **{key: text[key] for key in kept},
        "initializer_range": 0.05,
    }


SHAPES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    model: _shape(config)
    for model, config in PUBLISHED.items()
    if "thinker_config" not in config and config["model_type"] != "whisper"
}
"""Architecture, layers and heads of published translation models, by their ids."""


def write(model: str, folder: Path, seed: int = 0) -> Path:
    """Write a stand-in for one of ``SHAPES``, with its class, files, layers and heads."""
    architecture, sizes = SHAPES[model]
    writer = {"gemma4": write_gemma4, "gemma3": write_gemma3}.get(architecture)
    if writer is not None:
        return writer(folder, seed, **sizes)
    return write_text(architecture, folder, seed, **sizes)


def write_gemma4(folder: Path, seed: int = 0, **sizes: Any) -> Path:
    """Write a ``Gemma4ForConditionalGeneration``: text, vision and audio, as E4B is published."""
    tokenizer = templates.tokenizer("gemma4")
    tokenizer.add_special_tokens({"extra_special_tokens": list(MEDIA.values())})
    tokenizer.init_kwargs.update(MEDIA)  # attributes of the tokenizer that is loaded
    ids = {name: tokenizer.convert_tokens_to_ids(token) for name, token in MEDIA.items()}
    config = Gemma4Config(
        text_config=_text("gemma4", sizes),
        **TABLE["towers"]["gemma4"],
        **{f"{name}_id": place for name, place in ids.items()},
        eoa_token_index=ids["eoa_token"],
    )
    _save(Gemma4ForConditionalGeneration, config, "gemma4", folder, seed, tokenizer)
    write_json(folder / "processor_config.json", _PROCESSOR)
    _as_published(folder / "model.safetensors", config, list(ids.values()))
    return folder


def write_gemma3(folder: Path, seed: int = 0, **sizes: Any) -> Path:
    """Write a ``Gemma3ForConditionalGeneration``: text and vision, as MiLMMT-46-4B is published."""
    config = Gemma3Config(text_config=_text("gemma3", sizes), **TABLE["towers"]["gemma3"])
    _save(Gemma3ForConditionalGeneration, config, "gemma3", folder, seed)
    return folder


def write_text(architecture: str, folder: Path, seed: int = 0, **sizes: Any) -> Path:
    """Write a Qwen3, HunYuan or Llama with the family's template and all ids that end its turns."""
    config = AutoConfig.for_model(**_text(architecture, sizes))
    _save(AutoModelForCausalLM.from_config, config, architecture, folder, seed)
    return folder


def _text(architecture: str, sizes: Mapping[str, Any]) -> dict[str, Any]:
    return {**random_models.tiny(architecture), **sizes, "max_position_embeddings": 8192}


def _save(
    make: Any,
    config: Any,
    architecture: str,
    folder: Path,
    seed: int,
    tokenizer: PreTrainedTokenizerFast | None = None,
) -> None:
    tokenizer = tokenizer or templates.tokenizer(architecture)
    stops = tokenizer.convert_tokens_to_ids(list(templates.FAMILIES[architecture].stops))
    begin, pad = tokenizer.bos_token_id, tokenizer.pad_token_id
    text = config.get_text_config()
    text.bos_token_id, text.pad_token_id, text.eos_token_id = begin, pad, stops[0]
    model = random_models.drawn(lambda: make(config), seed)
    random_models.season(model, architecture)
    if architecture == "gemma4" and text.num_hidden_layers > _SHALLOW:
        for name, weight in model.named_parameters():
            if name.endswith("q_norm.weight"):
                weight.data.mul_(_CALM)
    model.generation_config = GenerationConfig(
        bos_token_id=begin, pad_token_id=pad, eos_token_id=stops, do_sample=True, top_k=64
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _as_published(path: Path, config: Gemma4Config, silent: list[int]) -> None:
    """Give layers that share keys projections, as published; ``silent`` tokens are not drafted."""
    weights = load_file(path)
    # Within text, vLLM and Transformers embed placeholders of other media differently.
    weights["model.language_model.embed_tokens.weight"][silent] = 0.0
    text = config.get_text_config()
    first = text.num_hidden_layers - text.num_kv_shared_layers
    for layer in range(first, text.num_hidden_layers):
        kind = text.layer_types[layer]
        twin = max(i for i in range(first) if text.layer_types[i] == kind)
        own, other = (f"model.language_model.layers.{i}.self_attn." for i in (layer, twin))
        for name in ("k_proj.weight", "v_proj.weight", "k_norm.weight"):
            weights[own + name] = torch.full_like(weights[other + name], torch.nan)
    save_file(weights, path, metadata={"format": "pt"})
