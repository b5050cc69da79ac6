"""Folders that hold a model's published dimensions and no weights: engines draw random ones.

Speed, memory, graphs and cache layouts do not depend on what weights say. A tokenizer of 512 ids
is beside each configuration; larger ids exist, and no text has them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import GenerationConfig
from transformers.models.gemma4 import Gemma4TextConfig
from transformers.models.qwen3_asr import Qwen3ASRConfig

from alignatt_agent.checks import published_speech, random_models
from alignatt_agent.checks.speech_layout import as_aligner, thinker_config
from alignatt_agent.config.agent_config import ModelConfig

GEMMA4_E4B: dict[str, Any] = {
    "hidden_size": 2560,
    "intermediate_size": 10240,
    "num_hidden_layers": 42,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "global_head_dim": 512,
    "num_kv_shared_layers": 18,
    "hidden_size_per_layer_input": 256,
    "vocab_size": 262144,
    "vocab_size_per_layer_input": 262144,
    "sliding_window": 512,
    "final_logit_softcapping": 30.0,
    "max_position_embeddings": 131072,
}
"""The text model of ``google/gemma-4-E4B-it``: 7.46 billion parameters, 57,344 bytes of keys and
values a token in bfloat16. Layer types and rotary embeddings are the class's own defaults."""

_AUDIO = {
    "d_model": 1024,
    "encoder_layers": 24,
    "encoder_attention_heads": 16,
    "encoder_ffn_dim": 4096,
    "downsample_hidden_size": 480,
    "n_window": 50,
    "n_window_infer": 800,
}
_TEXT = {
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 65536,
}
RECOGNIZER = (
    {**_AUDIO, "output_dim": 2048},
    {**_TEXT, "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144},
)
"""Audio encoder and decoder of ``Qwen/Qwen3-ASR-1.7B``: 114,688 bytes of cache a token."""

ALIGNER = (
    {**_AUDIO, "output_dim": 1024},
    {**_TEXT, "vocab_size": 152064, "hidden_size": 1024, "intermediate_size": 3072},
)
"""The same of ``Qwen/Qwen3-ForcedAligner-0.6B``, with 5,000 time bins."""

BINS = 5000

HEADS = ((0, 3), (5, 0), (6, 5), (10, 4), (11, 2), (11, 3), (17, 3), (20, 0))
"""Eight heads of Gemma-4 E4B: one in a full layer, seven in sliding ones, as in its head sets."""

PARAMETERS = 7.46e9
"""Of the translation model."""


def translation(folder: Path) -> ModelConfig:
    """Write the dimensions of Gemma-4 E4B."""
    config = Gemma4TextConfig(**GEMMA4_E4B, dtype="bfloat16", architectures=["Gemma4ForCausalLM"])
    config.save_pretrained(folder)
    GenerationConfig(bos_token_id=2, eos_token_id=[1, 5], pad_token_id=0).save_pretrained(folder)
    random_models.tokenizer().save_pretrained(folder)
    return _random(folder)


def recognizer(folder: Path) -> ModelConfig:
    """Write the dimensions of Qwen3-ASR-1.7B."""
    ids = published_speech.save_tokenizer(folder)
    config = thinker_config(_speech_config(RECOGNIZER, ids, tied=True), ids)
    published_speech.save_description(config, ids, folder)
    return _random(folder)


def aligner(folder: Path) -> ModelConfig:
    """Write the dimensions of the forced aligner."""
    ids = published_speech.save_tokenizer(folder)
    config = thinker_config(_speech_config(ALIGNER, ids, tied=False), ids)
    published_speech.save_description(as_aligner(config, BINS, ids), ids, folder)
    return _random(folder)


def _speech_config(sizes: tuple[dict[str, Any], dict[str, Any]], ids: Any, tied: bool) -> Any:
    audio, text = sizes
    return Qwen3ASRConfig(
        audio_config=audio,
        text_config={**text, "tie_word_embeddings": tied},
        tie_word_embeddings=tied,
        **published_speech.special_ids(ids),
    )


def _random(folder: Path) -> ModelConfig:
    return ModelConfig(path=str(folder), dtype="bfloat16", engine={"load_format": "dummy"})
