"""Names and files of ``Qwen/Qwen3-ASR-1.7B`` and ``Qwen/Qwen3-ForcedAligner-0.6B``.

They keep their configuration under ``thinker_config`` and their weights under ``thinker``;
Transformers uses names of its own. The micro models are written in the published names, so that
one loading path serves both.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

_RENAMED = (
    ("model.multi_modal_projector.linear_1.", "thinker.audio_tower.proj1."),
    ("model.multi_modal_projector.linear_2.", "thinker.audio_tower.proj2."),
    ("model.audio_tower.", "thinker.audio_tower."),
    ("model.language_model.", "thinker.model."),
    ("lm_head.", "thinker.lm_head."),
)
LM_HEAD = "thinker.lm_head.weight"

TIMESTAMP_MS = 80
"""Width of one bin of the forced aligner, in milliseconds."""

_AUDIO_KEYS = (
    *("activation_function", "d_model", "downsample_hidden_size", "encoder_attention_heads"),
    *("encoder_ffn_dim", "encoder_layers", "n_window", "n_window_infer", "num_mel_bins"),
    *("output_dim", "scale_embedding"),
)
_TEXT_KEYS = (
    *("attention_bias", "head_dim", "hidden_act", "hidden_size", "intermediate_size"),
    *("max_position_embeddings", "num_attention_heads", "num_hidden_layers"),
    *("num_key_value_heads", "rms_norm_eps", "vocab_size"),
)


def original_names(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Rename a ``Qwen3ASRForConditionalGeneration`` state dict to the published names."""
    renamed = {}
    for name, tensor in state.items():
        found = [new + name[len(old) :] for old, new in _RENAMED if name.startswith(old)]
        if not found:
            raise ValueError(f"no place for weight {name!r} in the original Qwen3-ASR layout")
        renamed[found[0]] = tensor.detach().cpu().contiguous()
    return renamed


def thinker_config(config: Any, ids: Mapping[str, int]) -> dict[str, Any]:
    """Build the published form of ``config.json`` from a ``transformers.Qwen3ASRConfig``."""
    audio, text = config.audio_config, config.text_config
    half = text.head_dim // 2
    sections = [half - 2 * (half * 5 // 16), half * 5 // 16, half * 5 // 16]
    return {
        "architectures": ["Qwen3ASRForConditionalGeneration"],
        "model_type": "qwen3_asr",
        "support_languages": ["English"],
        "thinker_config": {
            "model_type": "qwen3_asr",
            "audio_token_id": ids["<|audio_pad|>"],
            "audio_start_token_id": ids["<|audio_start|>"],
            "audio_end_token_id": ids["<|audio_end|>"],
            "initializer_range": config.initializer_range,
            "audio_config": {
                "model_type": "qwen3_asr_audio_encoder",
                "max_source_positions": 1500,
                **{key: getattr(audio, key) for key in _AUDIO_KEYS},
            },
            "text_config": {
                "model_type": "qwen3",
                **{key: getattr(text, key) for key in _TEXT_KEYS},
                # Audio and text advance all three position axes together, so this equals the
                # plain rotary embedding of the Transformers model.
                "rope_scaling": {
                    "interleaved": True,
                    "mrope_interleaved": True,
                    "mrope_section": sections,
                    "rope_type": "default",
                    "type": "default",
                },
                "rope_theta": float(text.rope_parameters["rope_theta"]),
                "tie_word_embeddings": config.tie_word_embeddings,
            },
        },
    }


def as_aligner(config: dict[str, Any], bins: int, ids: Mapping[str, int]) -> dict[str, Any]:
    """Return a recognizer's ``thinker_config`` as a forced aligner's with ``bins`` time bins."""
    thinker = config["thinker_config"]
    text = {**thinker["text_config"], "tie_word_embeddings": False}
    return {
        **config,
        "thinker_config": {**thinker, "classify_num": bins, "text_config": text},
        "timestamp_token_id": ids["<timestamp>"],
        "timestamp_segment_time": TIMESTAMP_MS,
    }


def save_model(
    weights: dict[str, torch.Tensor], config: dict[str, Any], ids: Mapping[str, int], folder: Path
) -> None:
    """Write weights of published names and the configuration; no tokenizer."""
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    dtype = str(next(iter(weights.values())).dtype).removeprefix("torch.")
    save_settings(config, dtype, ids, folder)


def save_settings(config: dict[str, Any], dtype: str, ids: Mapping[str, int], folder: Path) -> None:
    """Write the configuration for weights of type ``dtype``."""
    config["thinker_config"]["dtype"] = dtype
    stop = [ids["<|endoftext|>"], ids["<|im_end|>"]]
    write_json(folder / "config.json", config)
    write_json(
        folder / "generation_config.json",
        {"do_sample": False, "eos_token_id": stop, "pad_token_id": stop[0]},
    )
    shutil.copy(Path(__file__).with_name("preprocessor_config.json"), folder)


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write an indented JSON file."""
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
