"""Random speech checkpoints in the files of the published ones.

The tokenizer is ``vocab.json`` with ``merges.txt``, and the chat template lies in
``chat_template.json``, which a tokenizer does not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import Qwen3ASRConfig, Qwen3ASRForConditionalGeneration

from lab.stand_ins import random_models
from lab.stand_ins.speech_layout import (
    LM_HEAD,
    as_aligner,
    original_names,
    save_model,
    save_settings,
    thinker_config,
    write_json,
)

CHAT_TEMPLATE = random_models.chat_template("qwen3_asr")

_SPECIAL = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
    *("<|audio_start|>", "<|audio_end|>", "<|audio_pad|>"),
)
_PLAIN = ("<asr_text>", "<timestamp>")
"""Added tokens that decoding keeps."""

_AS_WRITTEN = dict.fromkeys(("lstrip", "normalized", "rstrip", "single_word"), False)

BINS = 400
"""Time bins of the aligner."""


def write_recognizer(folder: Path, seed: int = 0) -> Path:
    """Write a random Qwen3-ASR in the published files; equal seeds write equal weights."""
    ids = save_tokenizer(folder)
    model = tiny(ids, seed)
    weights = original_names(model.state_dict())
    del weights[LM_HEAD]  # tied to the embeddings
    _save(weights, thinker_config(model.config, ids), ids, folder)
    return folder


def write_aligner(folder: Path, seed: int = 0) -> Path:
    """Write a random forced aligner in the published files; equal seeds write equal weights."""
    ids = save_tokenizer(folder)
    model = tiny(ids, seed)
    weights = original_names(model.state_dict())
    generator = torch.Generator().manual_seed(seed)
    hidden = model.config.text_config.hidden_size
    weights[LM_HEAD] = torch.randn(BINS, hidden, generator=generator)
    _save(weights, as_aligner(thinker_config(model.config, ids), BINS, ids), ids, folder)
    return folder


def tiny(ids: Mapping[str, int], seed: int) -> Any:
    """Return a random Qwen3-ASR of 0.4 million parameters with these special tokens."""
    config = Qwen3ASRConfig(**special_ids(ids), **random_models.TABLE["recognizer"])
    return random_models.drawn(lambda: Qwen3ASRForConditionalGeneration(config), seed)


def special_ids(ids: Mapping[str, int]) -> dict[str, int]:
    """Return the entries of a ``Qwen3ASRConfig`` that name special tokens."""
    return {
        "audio_token_id": ids["<|audio_pad|>"],
        "timestamp_token_id": ids["<timestamp>"],
        "eos_token_id": ids["<|im_end|>"],
        "pad_token_id": ids["<|endoftext|>"],
    }


def _save(
    weights: dict[str, torch.Tensor], config: dict[str, Any], ids: Mapping[str, int], folder: Path
) -> None:
    save_model(weights, config, ids, folder)
    write_json(folder / "chat_template.json", {"chat_template": CHAT_TEMPLATE})


def save_description(config: dict[str, Any], ids: Mapping[str, int], folder: Path) -> None:
    """Write the published files except weights and tokenizer, for weights of bfloat16."""
    save_settings(config, "bfloat16", ids, folder)
    write_json(folder / "chat_template.json", {"chat_template": CHAT_TEMPLATE})


def save_tokenizer(folder: Path) -> dict[str, int]:
    """Write ``vocab.json``, ``merges.txt`` and their configuration; return ids of added tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer: Tokenizer = random_models.byte_level([])
    tokenizer.model.save(str(folder))
    first = tokenizer.get_vocab_size()
    ids = {token: first + place for place, token in enumerate((*_SPECIAL, *_PLAIN))}
    write_json(
        folder / "tokenizer_config.json",
        {
            "added_tokens_decoder": {
                str(place): {"content": token, "special": token in _SPECIAL, **_AS_WRITTEN}
                for token, place in ids.items()
            },
            "additional_special_tokens": list(_SPECIAL[1:]),
            "audio_bos_token": "<|audio_start|>",
            "audio_eos_token": "<|audio_end|>",
            "audio_token": "<|audio_pad|>",
            "eos_token": "<|im_end|>",
            "model_max_length": 131072,
            "pad_token": "<|endoftext|>",
            "tokenizer_class": "Qwen2Tokenizer",
        },
    )
    return ids
