"""Real fast tokenizers, trained here: Gemma's conventions and a byte-level BPE."""

from __future__ import annotations

import json

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerFast

SPECIALS = ["<pad>", "<eos>", "<bos>", "<unk>", "<|turn>", "<turn|>"]
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "<|turn>{{ message['role'] }}\n{{ message['content'] }}<turn|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|turn>model\n{% endif %}"
)
CORPUS = [
    "The model reads the source, and the policy decides what is safe to write.",
    "Das Modell liest die Quelle, und die Strategie entscheidet, was sicher ist.",
    "Il modello legge la fonte e la strategia decide cos'è sicuro, perché l'audio continua.",
    "模型阅读源文本，策略决定什么是安全的。我们使用GPT-4和3.5亿参数。",
    "system\nYou are a simultaneous interpreter. Translate the talk from English into German.",
    "user\n\n\nTranslate into German.\nmodel\n",
] * 4


@pytest.fixture(scope="session")
def gemma_like() -> PreTrainedTokenizerFast:
    """BPE over ``▁``-marked text without pre-tokenizer, unseen characters as bytes."""
    tokenizer = Tokenizer(BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    trainer = BpeTrainer(
        vocab_size=700,
        special_tokens=SPECIALS + [f"<0x{i:02X}>" for i in range(256)],
        show_progress=False,
    )
    # As in Gemma's vocabulary no token spans words or goes on after a line break.
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"▁*[^▁\n]+|\n+"), "isolated")
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.pre_tokenizer = None
    # The trainer marks bytes as special tokens, which Gemma's are not: decoding would skip them.
    layout = json.loads(tokenizer.to_str())
    layout["added_tokens"] = [t for t in layout["added_tokens"] if t["content"] in SPECIALS]
    tokenizer = Tokenizer.from_str(json.dumps(layout))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return _wrap(tokenizer)


@pytest.fixture(scope="session")
def byte_level() -> PreTrainedTokenizerFast:
    """Byte-level BPE, as Qwen's: a character may be spread over tokens."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=500,
        special_tokens=SPECIALS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return _wrap(tokenizer)


@pytest.fixture(scope="session", params=["gemma_like", "byte_level"])
def tokenizer(request: pytest.FixtureRequest) -> PreTrainedTokenizerFast:
    return request.getfixturevalue(request.param)


def _wrap(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIALS])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<bos>",
        eos_token="<eos>",
        pad_token="<pad>",
        unk_token="<unk>",
        chat_template=TEMPLATE,
        clean_up_tokenization_spaces=False,
    )
