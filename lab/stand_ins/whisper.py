"""Random Whisper checkpoints in the files of the published ones."""

from __future__ import annotations

import json
from pathlib import Path

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
    """Write a random Whisper with tokens of ten languages."""
    tokenizer = whisper_tokenizer()
    end, begin = map(tokenizer.convert_tokens_to_ids, _SPECIAL[:2])
    names = ("bos_token_id", "eos_token_id", "pad_token_id")
    ids = {**dict.fromkeys(names, end), "decoder_start_token_id": begin}
    config = WhisperConfig(**random_models.TABLE["whisper"], **ids)

    def make() -> WhisperForConditionalGeneration:
        model = WhisperForConditionalGeneration(config)
        # Transformers draws zeros for padding, which ends a transcript: it would never end.
        model.get_input_embeddings().weight.data[end].normal_(std=config.init_std)
        return model

    model = random_models.drawn(make, seed)
    model.generation_config = GenerationConfig(**ids)
    model.save_pretrained(folder)
    extractor = WhisperFeatureExtractor(feature_size=config.num_mel_bins)
    WhisperProcessor(extractor, tokenizer).save_pretrained(folder)
    return folder


def whisper_tokenizer() -> WhisperTokenizer:
    """Return a byte-level tokenizer with the control tokens of a multilingual Whisper."""
    plain = random_models.byte_level([])
    merges = [(left, right) for left, right in json.loads(plain.to_str())["model"]["merges"]]
    tokenizer = WhisperTokenizer(vocab=plain.get_vocab(), merges=merges)
    tokenizer.add_special_tokens({"extra_special_tokens": list(_SPECIAL[1:])})
    return tokenizer
