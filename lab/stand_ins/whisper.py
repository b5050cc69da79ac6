"""Random Whisper checkpoints in the files of the published ones."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from transformers import (
    GenerationConfig,
    WhisperConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
    WhisperProcessor,
    WhisperTokenizer,
)

from lab.stand_ins import random_models

_SPOKEN = ("en", "zh", "de", "es", "ru", "ko", "fr", "ja", "pt", "it")

_SPECIAL = (
    *("<|endoftext|>", "<|startoftranscript|>"),
    *(f"<|{code}|>" for code in _SPOKEN),
    *("<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>"),
    "<|notimestamps|>",
)


def write_whisper(folder: Path, seed: int = 0) -> Path:
    """Write a random Whisper of 0.4 million parameters with tokens of ten languages."""
    tokenizer = whisper_tokenizer()
    end, begin = map(tokenizer.convert_tokens_to_ids, _SPECIAL[:2])
    config = WhisperConfig(
        vocab_size=random_models.VOCABULARY + 64,
        d_model=64,
        encoder_layers=2,
        encoder_attention_heads=2,
        encoder_ffn_dim=128,
        decoder_layers=2,
        decoder_attention_heads=2,
        decoder_ffn_dim=128,
        num_mel_bins=80,
        init_std=0.2,
        bos_token_id=end,
        eos_token_id=end,
        pad_token_id=end,
        decoder_start_token_id=begin,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = WhisperForConditionalGeneration(config).eval()
        # Transformers draws zeros for padding, which ends a transcript: it would never end.
        model.get_input_embeddings().weight.data[end].normal_(std=config.init_std)
    model.generation_config = GenerationConfig(
        bos_token_id=end, eos_token_id=end, pad_token_id=end, decoder_start_token_id=begin
    )
    model.save_pretrained(folder)
    extractor = WhisperFeatureExtractor(feature_size=config.num_mel_bins)
    WhisperProcessor(extractor, tokenizer).save_pretrained(folder)
    return folder


def whisper_tokenizer() -> WhisperTokenizer:
    """Return a byte-level tokenizer with the control tokens of a multilingual Whisper."""
    plain = random_models.byte_level([])
    tokenizer = WhisperTokenizer(vocab=plain.get_vocab(), merges=_merges(plain.to_str()))
    tokenizer.add_special_tokens({"extra_special_tokens": list(_SPECIAL[1:])})
    return tokenizer


def _merges(serialised: str) -> list[tuple[str, str]]:
    return [(left, right) for left, right in json.loads(serialised)["model"]["merges"]]
