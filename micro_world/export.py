"""Saves trained Transformers Qwen3-ASR weights in the layout of the original checkpoints.

``Qwen/Qwen3-ASR-1.7B`` and ``Qwen/Qwen3-ForcedAligner-0.6B`` keep everything under ``thinker``;
Transformers uses names of its own. Micro checkpoints are written in the original layout so that
one loading path serves both.
"""

from __future__ import annotations

import json
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
_EMBEDDING = "thinker.model.embed_tokens.weight"
_LM_HEAD = "thinker.lm_head.weight"

TIMESTAMP_MS = 80
"""Width of one bin of the forced aligner, in milliseconds."""


def original_names(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Rename a ``Qwen3ASRForConditionalGeneration`` state dict to the original names.

    Raises:
        ValueError: a weight has a name that is not known here.
    """
    renamed = {}
    for name, tensor in state.items():
        for old, new in _RENAMED:
            if name.startswith(old):
                renamed[new + name[len(old) :]] = tensor.detach().cpu().contiguous()
                break
        else:
            raise ValueError(f"no place for weight {name!r} in the original Qwen3-ASR layout")
    return renamed


def save_recognizer(
    state: Mapping[str, torch.Tensor], config: Any, tokenizer: Any, folder: str | Path
) -> None:
    """Write a speech recogniser checkpoint.

    Args:
        state: state dict of a ``Qwen3ASRForConditionalGeneration``.
        config: its ``transformers.Qwen3ASRConfig``.
        tokenizer: the fast tokenizer, with the special tokens of Qwen3-ASR.
        folder: where to write; created when missing.
    """
    weights = original_names(state)
    if config.tie_word_embeddings:
        weights.pop(_LM_HEAD, None)
    _save(weights, _config(config, tokenizer), tokenizer, Path(folder))


def save_aligner(
    state: Mapping[str, torch.Tensor],
    classifier: torch.Tensor,
    config: Any,
    tokenizer: Any,
    folder: str | Path,
) -> None:
    """Write a forced aligner checkpoint.

    Args:
        state: state dict with the encoder, projector and decoder under the names of
            ``Qwen3ASRForConditionalGeneration``; an ``lm_head`` in it is left out.
        classifier: ``[bins, hidden]`` weight of the bias-free layer that scores time bins.
        config: the ``transformers.Qwen3ASRConfig``.
        tokenizer: the fast tokenizer, with ``<timestamp>`` among its special tokens.
        folder: where to write; created when missing.
    """
    weights = original_names({k: v for k, v in state.items() if not k.startswith("lm_head.")})
    weights[_LM_HEAD] = classifier.detach().cpu().contiguous()
    document = _config(config, tokenizer)
    document["thinker_config"]["classify_num"] = classifier.shape[0]
    document["thinker_config"]["text_config"]["tie_word_embeddings"] = False
    document["timestamp_token_id"] = tokenizer.convert_tokens_to_ids("<timestamp>")
    document["timestamp_segment_time"] = TIMESTAMP_MS
    _save(weights, document, tokenizer, Path(folder))


def _config(config: Any, tokenizer: Any) -> dict[str, Any]:
    """Build ``config.json`` of the original layout from the Transformers one."""
    audio, text = config.audio_config, config.text_config
    half = text.head_dim // 2
    sections = [half - 2 * (half * 5 // 16), half * 5 // 16, half * 5 // 16]
    return {
        "architectures": ["Qwen3ASRForConditionalGeneration"],
        "model_type": "qwen3_asr",
        "support_languages": ["English"],
        "thinker_config": {
            "model_type": "qwen3_asr",
            "audio_token_id": tokenizer.convert_tokens_to_ids("<|audio_pad|>"),
            "audio_start_token_id": tokenizer.convert_tokens_to_ids("<|audio_start|>"),
            "audio_end_token_id": tokenizer.convert_tokens_to_ids("<|audio_end|>"),
            "initializer_range": config.initializer_range,
            "audio_config": {
                "model_type": "qwen3_asr_audio_encoder",
                "activation_function": audio.activation_function,
                "d_model": audio.d_model,
                "downsample_hidden_size": audio.downsample_hidden_size,
                "encoder_attention_heads": audio.encoder_attention_heads,
                "encoder_ffn_dim": audio.encoder_ffn_dim,
                "encoder_layers": audio.encoder_layers,
                "max_source_positions": 1500,
                "n_window": audio.n_window,
                "n_window_infer": audio.n_window_infer,
                "num_mel_bins": audio.num_mel_bins,
                "output_dim": audio.output_dim,
                "scale_embedding": audio.scale_embedding,
            },
            "text_config": {
                "model_type": "qwen3",
                "attention_bias": text.attention_bias,
                "head_dim": text.head_dim,
                "hidden_act": text.hidden_act,
                "hidden_size": text.hidden_size,
                "intermediate_size": text.intermediate_size,
                "max_position_embeddings": text.max_position_embeddings,
                "num_attention_heads": text.num_attention_heads,
                "num_hidden_layers": text.num_hidden_layers,
                "num_key_value_heads": text.num_key_value_heads,
                "rms_norm_eps": text.rms_norm_eps,
                # Audio and text advance all three position axes together, so this equals the
                # plain rotary embedding of the Transformers model.
                "rope_scaling": {
                    "interleaved": True,
                    "mrope_interleaved": True,
                    "mrope_section": sections,
                    "rope_type": "default",
                    "type": "default",
                },
                "rope_theta": _rope_theta(text),
                "tie_word_embeddings": config.tie_word_embeddings,
                "vocab_size": text.vocab_size,
            },
        },
    }


def _rope_theta(text: Any) -> float:
    parameters = getattr(text, "rope_parameters", None) or {}
    return float(parameters.get("rope_theta", getattr(text, "rope_theta", 1e6)))


def _save(
    weights: dict[str, torch.Tensor], config: dict[str, Any], tokenizer: Any, folder: Path
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    config["thinker_config"]["dtype"] = str(next(iter(weights.values())).dtype).removeprefix(
        "torch."
    )
    tokenizer.save_pretrained(folder)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    stop = [tokenizer.convert_tokens_to_ids(t) for t in ("<|endoftext|>", "<|im_end|>")]
    _write(folder / "config.json", config)
    _write(
        folder / "generation_config.json",
        {"do_sample": False, "eos_token_id": stop, "pad_token_id": stop[0]},
    )
    _write(folder / "preprocessor_config.json", _FEATURES)


_FEATURES = {
    "chunk_length": 30,
    "dither": 0.0,
    "feature_extractor_type": "WhisperFeatureExtractor",
    "feature_size": 128,
    "hop_length": 160,
    "n_fft": 400,
    "n_samples": 480000,
    "nb_max_frames": 3000,
    "padding_side": "right",
    "padding_value": 0.0,
    "processor_class": "Qwen3ASRProcessor",
    "return_attention_mask": True,
    "sampling_rate": 16000,
}


def _write(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
