"""Random speech checkpoints in the files of the published ones.

The tokenizer of Qwen3-ASR is ``vocab.json`` with ``merges.txt``, and its chat template lies in
``chat_template.json``, which a tokenizer does not read.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import (
    GenerationConfig,
    Qwen3ASRConfig,
    Qwen3ASRForConditionalGeneration,
    WhisperConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
    WhisperProcessor,
    WhisperTokenizer,
)

from lab.stand_ins.random_models import TABLE, byte_level, chat_template, drawn
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
    return drawn(lambda: Qwen3ASRForConditionalGeneration(config), seed)


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
    tokenizer = byte_level([])
    tokenizer.model.save(str(folder))  # vocab.json and merges.txt
    special, plain = TABLE["recognizer_tokens"].values()
    ids = {token: i for i, token in enumerate(special + plain, tokenizer.get_vocab_size())}
    added = {
        str(i): {"content": token, "special": token in special, **_AS_WRITTEN}
        for token, i in ids.items()
    }
    settings = {"added_tokens_decoder": added, **TABLE["recognizer_tokenizer"]}
    write_json(folder / "tokenizer_config.json", settings)
    write_json(folder / "chat_template.json", {"chat_template": chat_template("qwen3_asr")})
    return ids


def write_whisper(folder: Path, seed: int = 0) -> Path:
    """Write a random Whisper with tokens of ten languages."""
    tokenizer = whisper_tokenizer()
    end, begin = map(tokenizer.convert_tokens_to_ids, TABLE["whisper_tokens"][:2])
    names = ("bos_token_id", "eos_token_id", "pad_token_id")
    ids = {**dict.fromkeys(names, end), "decoder_start_token_id": begin}
    config = WhisperConfig(**TABLE["whisper"], **ids)

    def make() -> WhisperForConditionalGeneration:
        model = WhisperForConditionalGeneration(config)
        # Transformers draws zeros for padding, which ends a transcript: it would never end.
        model.get_input_embeddings().weight.data[end].normal_(std=config.init_std)
        return model

    model = drawn(make, seed)
    model.generation_config = GenerationConfig(**ids)
    model.save_pretrained(folder)
    extractor = WhisperFeatureExtractor(feature_size=config.num_mel_bins)
    WhisperProcessor(extractor, tokenizer).save_pretrained(folder)
    return folder


def whisper_tokenizer() -> WhisperTokenizer:
    """Return a byte-level tokenizer with the control tokens of a multilingual Whisper."""
    plain = byte_level([])
    merges = [(left, right) for left, right in json.loads(plain.to_str())["model"]["merges"]]
    tokenizer = WhisperTokenizer(vocab=plain.get_vocab(), merges=merges)
    tokenizer.add_special_tokens({"extra_special_tokens": TABLE["whisper_tokens"][1:]})
    return tokenizer
