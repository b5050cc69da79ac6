"""Random checkpoints of several architectures and any size.

All share one byte-level tokenizer with a chat template, so that ``PromptBuilder`` works on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, GenerationConfig, PreTrainedTokenizerFast
from transformers.models.apertus import ApertusConfig
from transformers.models.cohere2 import Cohere2Config
from transformers.models.gemma3 import Gemma3TextConfig
from transformers.models.gemma4 import Gemma4TextConfig
from transformers.models.gpt_oss import GptOssConfig
from transformers.models.hunyuan_v1_dense import HunYuanDenseV1Config
from transformers.models.llama import LlamaConfig
from transformers.models.olmoe import OlmoeConfig
from transformers.models.qwen3 import Qwen3Config

VOCABULARY = 512
"""Ids of the smallest models; larger vocabularies leave the surplus unused by the tokenizer."""

FIRST_PLAIN_ID = 6
"""Ids below are special."""

_SPECIALS = ["<pad>", "<eos>", "<bos>", "<unk>", "<|turn>", "<turn|>"]
_IDS = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": [1, 5]}
_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|turn>{{ m['role'] }}\n{{ m['content'] }}<turn|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|turn>model\n{% endif %}"
)
_TEXT = [
    "the model reads every word of the talk, and then it waits until evidence arrives.",
    "system You are a simultaneous interpreter. Translate the talk from English into German.",
]

# Query heads 0-3 share one key head, 4-7 the other. Head sizes are ones that vLLM's CPU kernels
# have. Weights are large, so that greedy drafts wander instead of repeating one token.
_TINY: Mapping[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 2048,
    "initializer_range": 0.2,
    "tie_word_embeddings": False,
    **_IDS,
}
_SLIDING: Mapping[str, Any] = {
    "num_hidden_layers": 6,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
    "sliding_window": 64,
    "tie_word_embeddings": True,
}
_EXPERTS: Mapping[str, Any] = {"num_experts_per_tok": 2, "intermediate_size": 64}
_GPT_OSS: Mapping[str, Any] = {
    **_EXPERTS,
    "num_local_experts": 4,
    "sliding_window": 64,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "max_position_embeddings": 131072,
    # Wider ones, without norms of queries and keys, make rounding large: 2e-4 in a row.
    "initializer_range": 0.1,
}
_COHERE2: Mapping[str, Any] = {
    "sliding_window": 64,
    "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
    "tie_word_embeddings": True,
    "logit_scale": 1.0,
}
_GEMMA4: Mapping[str, Any] = {
    **_SLIDING,
    "global_head_dim": 64,
    "vocab_size_per_layer_input": VOCABULARY,
    "hidden_size_per_layer_input": 16,
    "num_kv_shared_layers": 2,
}

TIED_EMBEDDINGS = 0.05
"""Factor on embeddings that are output weights as well."""

_SHARPENED: Mapping[str, float] = {"gemma3": 2.0, "qwen3": 2.0, "hunyuan": 2.0}
"""Added to the scale of normalised queries, whose attention would be almost uniform."""

_SINK = 6.0
"""Added to the scores of attention sinks, which would take next to nothing."""

GEMMA4_200M: Mapping[str, Any] = {
    "vocab_size": 16384,
    "vocab_size_per_layer_input": 16384,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "hidden_size_per_layer_input": 64,
    "num_hidden_layers": 12,
    "num_kv_shared_layers": 4,
    "head_dim": 128,
    "global_head_dim": 256,
    "layer_types": (["sliding_attention"] * 3 + ["full_attention"]) * 3,
    "sliding_window": 512,
    "initializer_range": 0.1,
}
"""Sizes for ``write("gemma4", ...)`` at which compute and not overhead takes the time."""

_CONFIGS: Mapping[str, tuple[Callable[..., Any], Mapping[str, Any]]] = {
    # Sliding, full and KV-shared layers, two head sizes.
    "gemma4": (Gemma4TextConfig, _GEMMA4),
    "gemma3": (Gemma3TextConfig, {**_SLIDING, "query_pre_attn_scalar": 32}),
    "qwen3": (Qwen3Config, {}),
    "hunyuan": (HunYuanDenseV1Config, {}),
    "llama": (LlamaConfig, {}),
    # Attention sinks.
    "gpt-oss": (GptOssConfig, _GPT_OSS),
    # vLLM's window is one position wider than Transformers'.
    "cohere2": (Cohere2Config, _COHERE2),
    # Transformers clips queries, keys and values, vLLM does not.
    "olmoe": (
        OlmoeConfig,
        {**_EXPERTS, "num_attention_heads": 4, "num_experts": 4, "clip_qkv": 1.0},
    ),
    # vLLM keeps constants of its activation in bfloat16.
    "apertus": (ApertusConfig, {}),
}
ARCHITECTURES = tuple(_CONFIGS)


def write(architecture: str, folder: Path, *, seed: int = 0, **sizes: Any) -> Path:
    """Write a random checkpoint with its tokenizer; equal arguments write equal weights."""
    if architecture not in _CONFIGS:
        raise ValueError(f"unknown architecture {architecture!r}; known: {list(ARCHITECTURES)}")
    make, _ = _CONFIGS[architecture]
    config = make(**{**tiny(architecture), **sizes})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed * len(ARCHITECTURES) + ARCHITECTURES.index(architecture))
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    season(model, architecture)
    model.generation_config = GenerationConfig(**_IDS)
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def season(model: Any, architecture: str) -> None:
    """Change random weights so that drafts wander and attention has peaks."""
    if model.config.get_text_config().tie_word_embeddings:
        # Otherwise a token is most similar to itself and every draft repeats one.
        model.get_input_embeddings().weight.data.mul_(TIED_EMBEDDINGS)
    for name, weight in model.named_parameters():
        if name.endswith(".sinks"):
            weight.data.add_(_SINK)
    if architecture in _SHARPENED:
        for name, weight in model.named_parameters():
            if name.endswith(("q_norm.weight", "query_layernorm.weight")):
                weight.data.add_(_SHARPENED[architecture])


def tiny(architecture: str) -> dict[str, Any]:
    """Return the smallest configuration of an architecture, by its Transformers keys."""
    return {**_TINY, **_CONFIGS[architecture][1]}


def byte_level(specials: list[str]) -> Tokenizer:
    """Return a byte-level BPE of ``VOCABULARY`` ids at most; ``specials`` come first."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=specials,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_TEXT * 4, trainer)
    return tokenizer


def tokenizer(
    specials: Sequence[str] = _SPECIALS, template: str = _TEMPLATE
) -> PreTrainedTokenizerFast:
    """Return a byte-level tokenizer; ``specials`` are pad, end, begin, unknown, and marks."""
    pad, end, begin, unknown, *marks = specials
    return PreTrainedTokenizerFast(
        tokenizer_object=byte_level(list(specials)),
        bos_token=begin,
        eos_token=end,
        pad_token=pad,
        unk_token=unknown,
        extra_special_tokens=marks,
        chat_template=template,
    )
