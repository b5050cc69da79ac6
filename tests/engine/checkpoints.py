"""Random checkpoints of the three real architectures, small enough for a laptop's tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    Gemma4ForCausalLM,
    Gemma4TextConfig,
    PreTrainedTokenizerFast,
    Qwen2Tokenizer,
    Qwen3ASRConfig,
    Qwen3ASRForConditionalGeneration,
)

from alignatt_agent.micro.export import save_aligner, save_recognizer

GEMMA_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|turn>{{ m['role'] }}\n{{ m['content'] }}<turn|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|turn>model\n{% endif %}"
)
GEMMA_SPECIALS = ["<pad>", "<eos>", "<bos>", "<unk>", "<|turn>", "<turn|>"]
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
TEXT = [
    "the model reads every word of the talk, and then it waits until evidence arrives.",
    "system You are a simultaneous interpreter. Translate the talk from English into German.",
    "user model language English assistant",
]


def _byte_level(specials: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=512, special_tokens=specials, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXT * 4, trainer)
    return tokenizer


def gemma(folder: Path, seed: int = 0) -> Path:
    """Write a random Gemma-4 text model with sliding, full and KV-shared layers."""
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=_byte_level(GEMMA_SPECIALS),
        bos_token="<bos>",
        eos_token="<eos>",
        pad_token="<pad>",
        unk_token="<unk>",
        extra_special_tokens=["<|turn>", "<turn|>"],
        chat_template=GEMMA_TEMPLATE,
    )
    torch.manual_seed(seed)
    config = Gemma4TextConfig(
        vocab_size=512,
        vocab_size_per_layer_input=512,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=6,
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=32,
        global_head_dim=64,
        hidden_size_per_layer_input=16,
        num_kv_shared_layers=2,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2,
        sliding_window=64,
        max_position_embeddings=2048,
        initializer_range=0.2,
        bos_token_id=2,
        eos_token_id=[1, 5],
        pad_token_id=0,
    )
    model = Gemma4ForCausalLM(config).eval()
    # Another order of the vocabulary on the way out: with the embeddings themselves, a random
    # model repeats its last token for ever.
    embeddings = model.get_input_embeddings().weight
    model.config.tie_word_embeddings = False
    model.lm_head.weight = torch.nn.Parameter(embeddings[torch.randperm(512)].clone())
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    _write(folder / "generation_config.json", {"bos_token_id": 2, "eos_token_id": [1, 5]})
    return folder


def _qwen() -> tuple[Qwen3ASRForConditionalGeneration, Any]:
    tokenizer = Qwen2Tokenizer(
        tokenizer_object=_byte_level(QWEN_SPECIALS),
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


def _write(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
