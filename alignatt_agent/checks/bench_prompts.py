"""The fixed prompts of the bench, from the sentences of the embedded dev set."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import yaml

from alignatt_agent.config.resources import find_path
from alignatt_agent.translation.prompt import PromptBuilder
from alignatt_agent.types import Prompt

DEVSET = "micro_models/devset"

LENGTHS = {"short": 60, "medium": 180, "long": 420}
"""Tokens of a prompt, accepted prefix included."""

REFERENCE = ("medium", 20)
"""The setting that the bars were derived from: 180 prompt tokens, 20 drafted ones."""


@dataclass(frozen=True, slots=True)
class BenchPrompt:
    """A prompt and how much to draft.

    Attributes:
        name: e.g. ``"medium+prefix"``.
        prompt: the token ids.
        tokens: length of the draft.
    """

    name: str
    prompt: Prompt
    tokens: int

    @property
    def is_reference(self) -> bool:
        """Whether this is the setting of ``REFERENCE``, without an accepted prefix."""
        return (self.name, self.tokens) == REFERENCE


def bench_prompts(tokenizer: Any, number: int = 16) -> list[BenchPrompt]:
    """Build the prompts: short, medium and long in turn, every other triple with a prefix.

    The first three have drafts of 20 tokens, the others of 16 to 20.
    """
    builder = PromptBuilder(tokenizer, "English", "German")
    pairs = sentences()
    prompts = []
    for i in range(number):
        kind = list(LENGTHS)[i % 3]
        with_prefix = i // 3 % 2 == 1
        rotated = pairs[5 * i % len(pairs) :] + pairs[: 5 * i % len(pairs)]
        prefix = tokenizer.encode(rotated[0][1], add_special_tokens=False)[: 6 + i % 4]
        prompt = _fitted(builder, rotated, prefix if with_prefix else [], LENGTHS[kind])
        name = f"{kind}+prefix" if with_prefix else kind
        prompts.append(BenchPrompt(name, prompt, 20 if i < 3 else 16 + i % 5))
    return prompts


def _fitted(
    builder: PromptBuilder, pairs: list[tuple[str, str]], prefix: list[int], length: int
) -> Prompt:
    """Build a prompt of as many words as ``length`` tokens hold, then cut its source to fit."""
    words = [word for source, _ in pairs for word in source.split()] * 4
    taken = next(n for n in count(1) if len(builder.build(words[:n], prefix).token_ids) >= length)
    prompt = builder.build(words[:taken], prefix)
    end = prompt.source_end
    surplus = len(prompt.token_ids) - length
    return replace(
        prompt,
        token_ids=prompt.token_ids[: end - surplus] + prompt.token_ids[end:],
        token_word=prompt.token_word[: len(prompt.token_word) - surplus],
    )


def sentences() -> list[tuple[str, str]]:
    """Return the dev set's sentences with their German references.

    Raises:
        FileNotFoundError: not run from a checkout.
    """
    root = find_path(DEVSET)
    german = (root / "ref" / "de.txt").read_text(encoding="utf-8").splitlines()
    words: dict[str, Any] = {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in (root / "gold").glob("*.json")
    }
    listing = yaml.safe_load((root / "audio-segments.yaml").read_text(encoding="utf-8"))
    sources = []
    for entry in listing:
        begin, end = entry["offset"], entry["offset"] + entry["duration"]
        talk = words[entry["wav"].removesuffix(".wav")]
        sources.append(" ".join(word for word, start, _ in talk if begin - 1e-3 <= start < end))
    return list(zip(sources, german, strict=True))


class Nonces:
    """Variants of prompts that no engine has seen, so that nothing of them is cached."""

    def __init__(self, vocabulary: int) -> None:
        self._vocabulary = vocabulary
        self._numbers = count()

    def fresh(self, prompt: Prompt) -> Prompt:
        """Replace two tokens of the system prompt."""
        if prompt.source_start < 4:
            raise ValueError(f"no room for a nonce in front of position {prompt.source_start}")
        low = self._vocabulary // 2
        first, second = divmod(next(self._numbers), low)
        nonce = (low + first % low, low + second)
        return replace(prompt, token_ids=(*prompt.token_ids[:1], *nonce, *prompt.token_ids[3:]))


def streamed(sentence: str) -> Iterator[tuple[list[str], int]]:
    """Yield what a stream would show of a sentence: growing sources and accessible words.

    The last word is not accessible, as with a hold-back of one word.
    """
    words = sentence.split()
    for shown in range(3, len(words), 2):
        yield words[:shown], shown - 1
