"""Random checkpoints of several architectures and of any size (see ``architectures.yaml``).

All share one byte-level tokenizer with a chat template, which ``PromptBuilder`` needs.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import yaml
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig, PreTrainedTokenizerFast

TABLE: Mapping[str, Any] = yaml.safe_load(
    Path(__file__).with_name("architectures.yaml").read_text(encoding="utf-8")
)
ARCHITECTURES = tuple(TABLE["architectures"])
FAMILIES: Mapping[str, Mapping[str, list[str]]] = TABLE["families"]
"""Chat formats: ``specials`` are pad, end, begin, unknown, marks, by id; ``stops`` end turns."""
GEMMA4_200M: Mapping[str, Any] = TABLE["gemma4_200m"]
_TINY: Mapping[str, Any] = TABLE["tiny"]

VOCABULARY = 512
"""Ids of the smallest models; larger vocabularies leave the surplus unused by the tokenizer."""
FIRST_PLAIN_ID = 6
"""Ids below are special."""

_TEXT = [
    "the model reads every word of the talk, and then it waits until evidence arrives.",
    "system You are a simultaneous interpreter. Translate the talk from English into German.",
]

TIED_EMBEDDINGS = 0.05
"""Factor on embeddings that are output weights as well."""
_SHARPENED = {"gemma3": 2.0, "qwen3": 2.0, "hunyuan": 2.0}
"""Added to the scale of normalised queries, whose attention would be almost uniform."""
_SINK = 6.0
"""Added to the scores of attention sinks, which would take next to nothing."""


def write(architecture: str, folder: Path, *, seed: int = 0, **sizes: Any) -> Path:
    """Write a random checkpoint with its tokenizer; equal arguments write equal weights."""
    if architecture not in ARCHITECTURES:
        raise ValueError(f"unknown architecture {architecture!r}; expected {list(ARCHITECTURES)}")
    config = AutoConfig.for_model(**{**tiny(architecture), **sizes})
    # Each architecture draws other weights for the same seed.
    model_seed = seed * len(ARCHITECTURES) + ARCHITECTURES.index(architecture)
    model = decoder(config, architecture, model_seed)
    ids = {name: _TINY[name] for name in ("pad_token_id", "bos_token_id", "eos_token_id")}
    model.generation_config = GenerationConfig(**ids)
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def drawn(make: Callable[[], Any], seed: int) -> Any:
    """Return a model with weights drawn from ``seed``; other draws do not change."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make().eval()


def decoder(config: Any, architecture: str, seed: int) -> Any:
    """Return a random model, changed so that drafts vary and attention has peaks."""
    model = drawn(lambda: AutoModelForCausalLM.from_config(config, dtype=torch.float32), seed)
    if model.config.get_text_config().tie_word_embeddings:
        # Otherwise a token is most similar to itself and every draft repeats one.
        model.get_input_embeddings().weight.data.mul_(TIED_EMBEDDINGS)
    for name, weight in model.named_parameters():
        if name.endswith(".sinks"):
            weight.data.add_(_SINK)
        if name.endswith(("q_norm.weight", "query_layernorm.weight")):
            weight.data.add_(_SHARPENED.get(architecture, 0.0))
    return model


def tiny(architecture: str) -> dict[str, Any]:
    """Return the smallest configuration of an architecture, by its Transformers keys."""
    return {**_TINY, **TABLE["architectures"][architecture]}


def chat_template(name: str) -> str:
    """Return one of ``chat_templates`` without its line breaks and indentation."""
    path = Path(__file__).parent / "chat_templates" / f"{name}.jinja"
    lines = path.read_text(encoding="utf-8").splitlines()
    text = "".join(line.strip() for line in lines if not line.startswith("{#"))
    return text.replace("\\n", "\n")


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


def tokenizer(family: str = "random") -> PreTrainedTokenizerFast:
    """Return a byte-level tokenizer with the chat format of one of ``FAMILIES``."""
    pad, end, begin, unknown, *marks = specials = FAMILIES[family]["specials"]
    return PreTrainedTokenizerFast(
        tokenizer_object=byte_level(specials),
        bos_token=begin,
        eos_token=end,
        pad_token=pad,
        unk_token=unknown,
        extra_special_tokens=marks,
        chat_template=chat_template(family),
    )
