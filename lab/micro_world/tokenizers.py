"""Train tokenizers of the micro models, in the layouts of Gemma-4 and Qwen3."""

import json
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerFast, Qwen2Tokenizer

from alignatt_agent.config.languages import language
from lab.micro_world.corpus import TARGETS, sentences
from lab.micro_world.lexicon import NAMES
from lab.micro_world.translation_data import PROMPTS
from lab.stand_ins.random_models import chat_template

GEMMA_SPECIALS = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<|turn>", "<turn|>"]
GEMMA_SPLIT = r"\u0001|▁*\p{L}+'?|\p{N}|\n|."
QWEN_SPECIALS = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|audio_start|>",
    "<|audio_end|>",
    "<|audio_pad|>",
    "<asr_text>",
    "<timestamp>",
]
QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def write(folder: Path) -> None:
    """Train both tokenizers and write them into the folders of the models."""
    translation, speech = gemma(), qwen()
    translation.save_pretrained(folder / "gemma4")
    for model in ("qwen3-asr", "qwen3-aligner"):
        speech.save_pretrained(folder / model)


def gemma(samples: int = 20_000, seed: int = 11) -> PreTrainedTokenizerFast:
    """Train the translation tokenizer: BPE over ``▁``-marked text with byte fallback.

    Merges are learned inside written words, Chinese ones too, so that a token rarely spans two
    words of the gold alignment (44 of 44,392 Chinese tokens).
    """
    tokenizer = Tokenizer(BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(GEMMA_SPLIT), "isolated")
    byte_pieces = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = BpeTrainer(
        vocab_size=4000,
        special_tokens=GEMMA_SPECIALS + byte_pieces,
        min_frequency=3,
        show_progress=False,
    )
    tokenizer.train_from_iterator(_gemma_corpus(samples, seed), trainer)
    # The trainer places byte pieces first only as special tokens, which decoding would skip.
    content = json.loads(tokenizer.to_str())
    added_tokens = content["added_tokens"]
    content["added_tokens"] = [t for t in added_tokens if t["content"] in GEMMA_SPECIALS]
    tokenizer = Tokenizer.from_str(json.dumps(content))
    # Only the trainer sees the marks at which the pre-tokenizer splits Chinese.
    tokenizer.pre_tokenizer = None
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    specials = [AddedToken(text, special=True) for text in GEMMA_SPECIALS]
    tokenizer.add_special_tokens(specials)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<bos>",
        eos_token="<eos>",
        pad_token="<pad>",
        unk_token="<unk>",
        chat_template=chat_template("gemma4_micro"),
        clean_up_tokenization_spaces=False,
        additional_special_tokens=["<|turn>", "<turn|>"],
    )


def qwen(samples: int = 20_000, seed: int = 12) -> Qwen2Tokenizer:
    """Train the speech tokenizer: byte-level BPE with Qwen's split pattern and special tokens."""
    tokenizer = Tokenizer(BPE())
    tokenizer.normalizer = normalizers.NFC()
    words = pre_tokenizers.Split(Regex(QWEN_SPLIT), "isolated")
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([words, bytes_])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=1800,
        special_tokens=QWEN_SPECIALS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        min_frequency=3,
        show_progress=False,
    )
    tokenizer.train_from_iterator(_qwen_corpus(samples, seed), trainer)
    return Qwen2Tokenizer(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=chat_template("qwen3_asr"),
        extra_special_tokens={
            "audio_bos_token": "<|audio_start|>",
            "audio_eos_token": "<|audio_end|>",
            "audio_token": "<|audio_pad|>",
        },
    )


def _gemma_corpus(samples: int, seed: int) -> Iterator[str]:
    prompts = _prompts()
    for number, pair in enumerate(islice(sentences(seed), samples)):
        yield pair.text
        for side in pair.targets.values():
            # Control characters keep neighbouring Chinese words in separate pre-tokens.
            yield "\u0001".join(side.pieces)
        if number % 10 == 0:
            yield from prompts


def _prompts() -> list[str]:
    """Return the texts around a source in every direction and behavior."""
    prompts = []
    for code in TARGETS:
        target = language(code).name
        names = {"source_language": "English", "target_language": target, "context": ""}
        for prompt in PROMPTS.values():
            system = prompt.system or ""
            prompts += [system.format(**names), prompt.after.format(**names)]
        context = PROMPTS["follows"].context
        prompts.append(context.format(terms=", ".join(NAMES)))
    prompts += ["system\n", "user\n", "model\n"]
    return prompts


def _qwen_corpus(samples: int, seed: int) -> Iterable[str]:
    chat = ["system\n", "user\n", "assistant\n", "language English", "\n".join(NAMES)]
    for pair in islice(sentences(seed), samples):
        yield pair.text
        # The aligner tokenizes each word alone, without its marks.
        for word in pair.words:
            yield re.sub(r"[^\w']", "", word)
        yield from chat
