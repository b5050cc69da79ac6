"""Random speech checkpoints with the files of published checkpoints.

The tokenizer of Qwen3-ASR is ``vocab.json`` with ``merges.txt``. Its chat template is stored in
``chat_template.json``, which a tokenizer does not read.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers import (
    GenerationConfig,
    Qwen3ASRForConditionalGeneration,
    WhisperConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
    WhisperProcessor,
    WhisperTokenizer,
)

from alignatt_agent.config.resources import find_path
from lab.stand_ins.random_models import TABLE, byte_level, drawn
from lab.stand_ins.speech_layout import LM_HEAD, original_names, transformers_config, write_json

EMBEDDED = {"asr": "micro_models/qwen3-asr", "aligner": "micro_models/qwen3-aligner"}
CONFIGS: Mapping[str, Any] = {
    role: json.loads((find_path(path) / "config.json").read_text(encoding="utf-8"))
    for role, path in EMBEDDED.items()
}


def publish(role: str, folder: Path) -> Path:
    """Copy an embedded speech model, tokenizer and chat template in the published file layout."""
    shutil.copytree(find_path(EMBEDDED[role]), folder, dirs_exist_ok=True)
    tokenizer = folder / "tokenizer.json"
    layout = json.loads(tokenizer.read_text(encoding="utf-8"))
    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    for key in ("backend", "extra_special_tokens"):
        settings.pop(key, None)
    settings["tokenizer_class"] = "Qwen2Tokenizer"
    settings["added_tokens_decoder"] = {
        str(token.pop("id")): token for token in layout["added_tokens"]
    }
    template = folder / "chat_template.jinja"
    write_json(folder / "tokenizer_config.json", settings)
    chat = {"chat_template": template.read_text(encoding="utf-8")}
    write_json(folder / "chat_template.json", chat)
    Tokenizer.from_file(str(tokenizer)).model.save(str(folder))  # vocab.json and merges.txt
    tokenizer.unlink()
    template.unlink()
    return folder


def write(role: str, folder: Path, seed: int = 0) -> Path:
    """Write a random recognizer or forced aligner of the embedded model's size."""
    publish(role, folder)
    model = drawn_model(role, seed)
    weights = original_names(model.state_dict())
    del weights[LM_HEAD]  # tied to the embeddings
    if bins := CONFIGS[role]["thinker_config"].get("classify_num"):
        generator = torch.Generator().manual_seed(seed)
        hidden = model.config.text_config.hidden_size
        weights[LM_HEAD] = torch.randn(bins, hidden, generator=generator)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def drawn_model(role: str, seed: int) -> Any:
    """Return a random Qwen3-ASR in Transformers' class; equal seeds draw equal weights."""
    config = transformers_config(CONFIGS[role])
    return drawn(lambda: Qwen3ASRForConditionalGeneration(config), seed)


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
