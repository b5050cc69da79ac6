"""Random checkpoints of both Qwen3 speech models, small enough for a laptop's tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import Qwen2Tokenizer, Qwen3ASRConfig, Qwen3ASRForConditionalGeneration

from alignatt_agent.checks import random_models
from micro_world.export import save_aligner, save_recognizer

QWEN_SPECIALS = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|audio_start|>",
    "<|audio_end|>",
    "<|audio_pad|>",
    "<asr_text>",
    "<timestamp>",
]


def _qwen() -> tuple[Qwen3ASRForConditionalGeneration, Any]:
    tokenizer = Qwen2Tokenizer(
        tokenizer_object=random_models.byte_level(QWEN_SPECIALS),
        pad_token="<|endoftext|>",
        eos_token="<|im_end|>",
        extra_special_tokens={
            "audio_bos_token": "<|audio_start|>",
            "audio_eos_token": "<|audio_end|>",
            "audio_token": "<|audio_pad|>",
        },
    )
    config = Qwen3ASRConfig(
        audio_config={
            "d_model": 64,
            "encoder_layers": 2,
            "encoder_attention_heads": 2,
            "encoder_ffn_dim": 128,
            "downsample_hidden_size": 16,
            "output_dim": 64,
            "n_window": 50,
            "n_window_infer": 800,
        },
        text_config={
            "vocab_size": 512,
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 32,
            "max_position_embeddings": 4096,
            "tie_word_embeddings": True,
        },
        audio_token_id=tokenizer.convert_tokens_to_ids("<|audio_pad|>"),
        timestamp_token_id=tokenizer.convert_tokens_to_ids("<timestamp>"),
        eos_token_id=tokenizer.convert_tokens_to_ids("<|im_end|>"),
        pad_token_id=0,
    )
    return Qwen3ASRForConditionalGeneration(config).eval(), tokenizer


def recognizer(folder: Path) -> Path:
    """Write a random Qwen3-ASR in the original layout."""
    torch.manual_seed(1)
    model, tokenizer = _qwen()
    save_recognizer(model.state_dict(), model.config, tokenizer, folder)
    return folder


def aligner(folder: Path) -> Path:
    """Write a random forced aligner in the original layout."""
    torch.manual_seed(2)
    model, tokenizer = _qwen()
    head = torch.randn(400, model.config.text_config.hidden_size)
    save_aligner(model.state_dict(), head, model.config, tokenizer, folder)
    return folder
