"""Random checkpoints in the files and classes that the real ones are published in.

The real configurations start on them as they are, with paths and types replaced: they stand in
for weights where none can be had, never for what the weights know.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import GenerationConfig
from transformers.models.gemma4 import Gemma4Config, Gemma4ForConditionalGeneration

from alignatt_agent.checks import random_models

_TOWER = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}


def write_gemma4(folder: Path, seed: int = 0) -> Path:
    """Write a ``Gemma4ForConditionalGeneration``: text, vision and audio, as E4B is published.

    The last layers share keys and values of earlier ones; the published files hold projections
    for them all the same, and several ids that end a turn.

    Args:
        folder: where to write; created.
        seed: of the weights.

    Returns:
        ``folder``.
    """
    text = random_models.tiny("gemma4")
    config = Gemma4Config(
        text_config=text,
        vision_config={
            **_TOWER,
            "intermediate_size": 128,
            "num_key_value_heads": 2,
            "head_dim": 32,
            "position_embedding_size": 64,
        },
        audio_config={**_TOWER, "subsampling_conv_channels": (8, 8), "output_proj_dims": 64},
        # The last ids of the vocabulary, where no text token of a tiny tokenizer is.
        **{
            name: random_models.VOCABULARY - place
            for place, name in enumerate(
                (
                    *("boi_token_id", "eoi_token_id", "image_token_id", "video_token_id"),
                    *("boa_token_id", "eoa_token_index", "audio_token_id"),
                ),
                start=1,
            )
        },
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Gemma4ForConditionalGeneration(config).eval()
    model.get_input_embeddings().weight.data.mul_(random_models.TIED_EMBEDDINGS)
    model.generation_config = GenerationConfig(
        bos_token_id=2, pad_token_id=0, eos_token_id=[1, 5, 4], do_sample=True, top_k=64
    )
    model.save_pretrained(folder)
    _add_vestigial_projections(folder / "model.safetensors", config)
    random_models.tokenizer().save_pretrained(folder)
    return folder


def _add_vestigial_projections(path: Path, config: Gemma4Config) -> None:
    """Give layers that share keys and values the projections that nobody reads."""
    weights = load_file(path)
    text = config.get_text_config()
    first = text.num_hidden_layers - text.num_kv_shared_layers
    for layer in range(first, text.num_hidden_layers):
        kind = text.layer_types[layer]
        twin = max(i for i in range(first) if text.layer_types[i] == kind)
        own, other = (f"model.language_model.layers.{i}.self_attn." for i in (layer, twin))
        for name in ("k_proj.weight", "v_proj.weight", "k_norm.weight"):
            weights[own + name] = torch.full_like(weights[other + name], torch.nan)
    save_file(weights, path, metadata={"format": "pt"})
