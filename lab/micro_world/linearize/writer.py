"""Choice among the correct wordings of a reference, the same in every target language."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import yaml

from lab.micro_world.linearize.token import Token, split
from lab.micro_world.tree import Leaf, Sentence

INFLECTION: dict[str, Any] = yaml.safe_load(
    Path(__file__).with_name("inflection.yaml").read_text(encoding="utf-8")
)
USUAL = 0.7
"""Probability of the first of several synonyms."""


class Writer:
    """Writes trees in the language ``code``; the same seed draws the same wording."""

    code = ""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def sentence(self, sentence: Sentence) -> list[Token]:
        """Return the words and marks of a sentence."""
        raise NotImplementedError

    def pick(self, leaf: Leaf[Any]) -> Any:
        """Draw one of the synonyms of a word."""
        synonyms = getattr(leaf.value, self.code)
        if len(synonyms) == 1 or self._rng.random() < USUAL:
            return synonyms[0]
        return self._rng.choice(synonyms[1:])

    def chance(self, p: float) -> bool:
        """Whether to take the rarer of two orders, with probability ``p``."""
        return self._rng.random() < p

    def word(self, leaf: Leaf[Any]) -> Token:
        """Return one of the synonyms of a word as a token."""
        return Token(self.pick(leaf), (leaf.id,))

    def words(self, leaf: Leaf[Any]) -> list[Token]:
        """Return one of the synonyms of a word, which may be several words."""
        return split(self.pick(leaf), leaf.id)

    def usual(self, leaf: Leaf[Any]) -> Token:
        """Return the first of the synonyms of a word."""
        return Token(getattr(leaf.value, self.code)[0], (leaf.id,))
