"""Dimensions of published checkpoints, as their ``config.json`` has them: facts, not weights.

They say how much memory a checkpoint that is not on this machine takes and how long a step of it
lasts, and give stand-ins for it their layers and heads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Config = Mapping[str, Any]


def _text(
    layers: int, heads: int, key_heads: int, head: int, hidden: int, inner: int, vocabulary: int
) -> dict[str, Any]:
    return {
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": key_heads,
        "head_dim": head,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "vocab_size": vocabulary,
        "tie_word_embeddings": True,
    }


def _hybrid(layers: int) -> list[str]:
    """Five sliding layers and a full one in turn."""
    return ["full_attention" if i % 6 == 5 else "sliding_attention" for i in range(layers)]


def _audio(layers: int, heads: int, width: int, out: int) -> dict[str, Any]:
    return {
        "encoder_layers": layers,
        "encoder_attention_heads": heads,
        "d_model": width,
        "encoder_ffn_dim": 4 * width,
        "downsample_hidden_size": 480,
        "num_mel_bins": 128,
        "output_dim": out,
    }


def _thinker(audio: Config, text: Config, **more: Any) -> Config:
    return {
        "model_type": "qwen3_asr",
        "thinker_config": {"audio_config": audio, "text_config": text, **more},
    }


PUBLISHED: Mapping[str, Config] = {
    "google/gemma-4-E4B-it": {
        "model_type": "gemma4",
        "text_config": {
            **_text(42, 8, 2, 256, 2560, 10240, 262144),
            "layer_types": _hybrid(42),
            "sliding_window": 512,
            "global_head_dim": 512,
            "num_kv_shared_layers": 18,
            "use_double_wide_mlp": False,
            "hidden_size_per_layer_input": 256,
            "vocab_size_per_layer_input": 262144,
        },
    },
    "xiaomi-research/MiLMMT-46-4B-v0.1": {
        "model_type": "gemma3",
        "text_config": {
            **_text(34, 8, 4, 256, 2560, 10240, 262208),
            "layer_types": _hybrid(34),
            "sliding_window": 1024,
        },
    },
    "Qwen/Qwen3-1.7B": {
        "model_type": "qwen3",
        **_text(28, 16, 8, 128, 2048, 6144, 151936),
    },
    "Qwen/Qwen3-4B": {
        "model_type": "qwen3",
        **_text(36, 32, 8, 128, 2560, 9728, 151936),
    },
    "tencent/HY-MT1.5-1.8B": {
        "model_type": "hunyuan_v1_dense",
        **_text(32, 16, 4, 128, 2048, 6144, 120818),
    },
    "tencent/HY-MT1.5-7B": {
        "model_type": "hunyuan_v1_dense",
        **_text(32, 32, 8, 128, 4096, 14336, 128256),
    },
    "utter-project/EuroLLM-9B-Instruct": {
        "model_type": "llama",
        **_text(42, 32, 8, 128, 4096, 12288, 128000),
        "tie_word_embeddings": False,
    },
    "Qwen/Qwen3-ASR-1.7B": _thinker(
        _audio(24, 16, 1024, 2048), _text(28, 16, 8, 128, 2048, 6144, 151936)
    ),
    "Qwen/Qwen3-ASR-0.6B": _thinker(
        _audio(18, 14, 896, 1024), _text(28, 16, 8, 128, 1024, 3072, 151936)
    ),
    "Qwen/Qwen3-ForcedAligner-0.6B": _thinker(
        _audio(24, 16, 1024, 1024),
        {**_text(28, 16, 8, 128, 1024, 3072, 152064), "tie_word_embeddings": False},
        classify_num=5000,
    ),
    "openai/whisper-large-v3": {
        "model_type": "whisper",
        "d_model": 1280,
        "encoder_layers": 32,
        "encoder_ffn_dim": 5120,
        "encoder_attention_heads": 20,
        "decoder_layers": 32,
        "decoder_ffn_dim": 5120,
        "decoder_attention_heads": 20,
        "num_mel_bins": 128,
        "vocab_size": 51866,
        "max_source_positions": 1500,
        "max_target_positions": 448,
    },
}
"""By id on the hub; Gemma's are their text models, which is what a translation engine loads."""
