"""Random checkpoints with the files and classes of published checkpoints.

The real configurations start with these checkpoints if paths and data types are replaced. The
checkpoints replace unavailable weights, so their output is meaningless.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, GenerationConfig

from alignatt_agent.engine.model_sizes import PUBLISHED
from lab.stand_ins import random_models
from lab.stand_ins.random_models import FAMILIES, TABLE
from lab.stand_ins.speech_layout import write_json

MEDIA: Mapping[str, str] = TABLE["media"]

_SHALLOW = 12
"""Number of layers whose queries in Gemma-4 keep their initial scale."""
_CALM = 0.3
"""Factor on the queries of deeper ones, whose scores are not scaled down: with random weights each
layer attends to one token, and 42 of them multiply the rounding of the first to 5e-4 (measured)."""
_PUBLISHED_SIZES = (
    *("num_hidden_layers", "num_attention_heads", "num_key_value_heads"),
    *("layer_types", "num_kv_shared_layers"),
)
"""Published dimensions that a stand-in keeps."""


def _shape(config: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    text = config.get("text_config", config)
    sizes = {key: text[key] for key in _PUBLISHED_SIZES if key in text}
    # With the wide weights of shallow models, rounding grows too large in as many layers.
    sizes["initializer_range"] = 0.05
    return config["model_type"].removesuffix("_v1_dense"), sizes


SHAPES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    model: _shape(config)
    for model, config in PUBLISHED.items()
    if "thinker_config" not in config and config["model_type"] != "whisper"
}
"""Architecture, layers and heads of published translation models, by their ids."""


def chat_of(model: str) -> str:
    """Return the chat format of a published model, see ``random_models.FAMILIES``."""
    family = Path(model).name.partition("-")[0]
    if family in FAMILIES:
        return family
    architecture, _ = SHAPES[model]
    return architecture


def write(model: str, folder: Path) -> Path:
    """Write a stand-in with all ids that end its turns, and its encoders.

    ``model`` is one of ``SHAPES``, with its class, files, layers and heads, or an architecture.
    Gemma-4 comes with text, vision and audio, as E4B is published; Gemma-3 with text and vision,
    as MiLMMT-46-4B.
    """
    architecture, sizes = SHAPES.get(model, (model, {}))
    chat = chat_of(model)
    tokenizer = random_models.tokenizer(chat)
    config = _configuration(architecture, tokenizer, sizes)
    ends = tokenizer.convert_tokens_to_ids(FAMILIES[chat]["stops"])
    ids = {"bos_token_id": tokenizer.bos_token_id, "pad_token_id": tokenizer.pad_token_id}
    text = config.get_text_config()
    vars(text).update(ids, eos_token_id=ends[0])
    checkpoint = random_models.decoder(config, architecture, seed=0)
    if architecture == "gemma4" and text.num_hidden_layers > _SHALLOW:
        for name, weight in checkpoint.named_parameters():
            if name.endswith("q_norm.weight"):
                weight.data.mul_(_CALM)
    # As in published checkpoints, greedy decoding is not the default.
    checkpoint.generation_config = GenerationConfig(
        **ids, eos_token_id=ends, do_sample=True, top_k=64
    )
    checkpoint.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if architecture == "gemma4":
        write_json(folder / "processor_config.json", TABLE["processor"])
        silent = tokenizer.convert_tokens_to_ids(list(MEDIA.values()))
        _as_published(folder / "model.safetensors", text, silent)
    return folder


def _configuration(architecture: str, tokenizer: Any, sizes: Mapping[str, Any]) -> Any:
    text = {**random_models.tiny(architecture), **sizes, "max_position_embeddings": 8192}
    towers = TABLE["towers"].get(architecture)
    if towers is None:
        return AutoConfig.for_model(**text)
    media = _add_media(tokenizer) if architecture == "gemma4" else {}
    return AutoConfig.for_model(architecture, text_config=text, **towers, **media)


def _add_media(tokenizer: Any) -> dict[str, int]:
    """Add the tokens of other media; return the entries of the configuration that name them."""
    tokenizer.add_special_tokens({"extra_special_tokens": list(MEDIA.values())})
    tokenizer.init_kwargs.update(MEDIA)  # attributes of the tokenizer that is loaded
    token = tokenizer.convert_tokens_to_ids
    ids = {f"{name}_id": token(text) for name, text in MEDIA.items()}
    return {**ids, "eoa_token_index": ids["eoa_token_id"]}


def _as_published(path: Path, text: Any, silent: list[int]) -> None:
    """Give layers that share keys projections, as published; ``silent`` tokens are not drafted."""
    weights = load_file(path)
    # Within text, vLLM and Transformers embed placeholders of other media differently.
    weights["model.language_model.embed_tokens.weight"][silent] = 0.0
    first = text.num_hidden_layers - text.num_kv_shared_layers
    for layer in range(first, text.num_hidden_layers):
        kind = text.layer_types[layer]
        twin = max(i for i in range(first) if text.layer_types[i] == kind)
        for name in ("k_proj.weight", "v_proj.weight", "k_norm.weight"):
            twin_weight = weights[f"model.language_model.layers.{twin}.self_attn.{name}"]
            # Not a number, so that a layer that reads its unused weights is noticed.
            unused = torch.full_like(twin_weight, torch.nan)
            weights[f"model.language_model.layers.{layer}.self_attn.{name}"] = unused
    save_file(weights, path, metadata={"format": "pt"})
