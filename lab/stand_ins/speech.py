"""Random speech checkpoints in the files of the published ones.

The tokenizer is ``vocab.json`` with ``merges.txt``, and the chat template lies in
``chat_template.json``, which a tokenizer does not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import Qwen3ASRConfig, Qwen3ASRForConditionalGeneration

from lab.stand_ins import random_models
from lab.stand_ins.random_models import TABLE
from lab.stand_ins.speech_layout import (
    LM_HEAD,
    as_aligner,
    original_names,
    save_model,
    thinker_config,
    write_json,
)

_AS_WRITTEN = dict.fromkeys(("lstrip", "normalized", "rstrip", "single_word"), False)

BINS = 400
"""Time bins of the aligner."""


def write_recognizer(folder: Path, seed: int = 0) -> Path:
    """Write a random Qwen3-ASR in the published files; equal seeds write equal weights."""
    ids = save_tokenizer(folder)
    model = tiny(ids, seed)
    weights = original_names(model.state_dict())
    del weights[LM_HEAD]  # tied to the embeddings
    save_model(weights, thinker_config(model.config, ids), ids, folder)
    return folder


def write_aligner(folder: Path, seed: int = 0) -> Path:
    """Write a random forced aligner in the published files; equal seeds write equal weights."""
    ids = save_tokenizer(folder)
    model = tiny(ids, seed)
    weights = original_names(model.state_dict())
    generator = torch.Generator().manual_seed(seed)
    hidden = model.config.text_config.hidden_size
    weights[LM_HEAD] = torch.randn(BINS, hidden, generator=generator)
    save_model(weights, as_aligner(thinker_config(model.config, ids), BINS, ids), ids, folder)
    return folder


def tiny(ids: Mapping[str, int], seed: int) -> Any:
    """Return a random Qwen3-ASR of 0.4 million parameters with these special tokens."""
    config = Qwen3ASRConfig(**special_ids(ids), **TABLE["recognizer"])
    return random_models.drawn(lambda: Qwen3ASRForConditionalGeneration(config), seed)


def special_ids(ids: Mapping[str, int]) -> dict[str, int]:
    """Return the entries of a ``Qwen3ASRConfig`` that name special tokens."""
    return {
        "audio_token_id": ids["<|audio_pad|>"],
        "timestamp_token_id": ids["<timestamp>"],
        "eos_token_id": ids["<|im_end|>"],
        "pad_token_id": ids["<|endoftext|>"],
    }


def save_tokenizer(folder: Path) -> dict[str, int]:
    """Write the tokenizer and the chat template in their files; return ids of added tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = random_models.byte_level([])
    tokenizer.model.save(str(folder))  # vocab.json and merges.txt
    special, plain = TABLE["recognizer_tokens"].values()
    ids = {token: i for i, token in enumerate(special + plain, tokenizer.get_vocab_size())}
    added = {
        str(i): {"content": token, "special": token in special, **_AS_WRITTEN}
        for token, i in ids.items()
    }
    settings = {"added_tokens_decoder": added, **TABLE["recognizer_tokenizer"]}
    write_json(folder / "tokenizer_config.json", settings)
    template = random_models.chat_template("qwen3_asr")
    write_json(folder / "chat_template.json", {"chat_template": template})
    return ids
