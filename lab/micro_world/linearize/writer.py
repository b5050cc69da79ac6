"""Define words with identities, convert them to text, and choose among correct wordings."""

import random
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from lab.micro_world.tree import Leaf

INFLECTION: dict[str, Any] = yaml.safe_load(
    Path(__file__).with_name("inflection.yaml").read_text(encoding="utf-8")
)
USUAL = 0.7
"""Probability of the first of several synonyms."""
END = 0
"""Identity of the sentence-final full stop."""


class Token(NamedTuple):
    """A word or a punctuation mark."""

    text: str
    ids: tuple[int, ...]  # of the leaves it depends on; it is aligned to the first
    glue: bool = False  # no space before it


def comma(*ids: int) -> Token:
    """Return a comma."""
    return Token(",", ids, glue=True)


def split(text: str, *ids: int) -> list[Token]:
    """Return one token per word and per comma."""
    tokens = []
    for word in text.split():
        tokens.append(Token(word.rstrip(","), ids))
        if word.endswith(","):
            tokens.append(comma(*ids))
    return tokens


def finish(tokens: list[Token]) -> list[Token]:
    """Return ``tokens`` with the first letter in upper case and a full stop."""
    first = tokens[0]
    capital = first._replace(text=first.text[0].upper() + first.text[1:])
    return [capital, *tokens[1:], Token(".", (END,), glue=True)]


def merge_marks(tokens: list[Token]) -> list[Token]:
    """Drop a comma directly before another mark."""
    merged = []
    for token, following in pairwise([*tokens, Token("", ())]):
        if token.text in ",，" and following.glue:
            continue
        merged.append(token)
    return merged


def surface(tokens: list[Token], *, spaced: bool) -> list[str]:
    """Return the written pieces whose concatenation is the sentence."""
    pieces = [tokens[0].text]
    for token in tokens[1:]:
        if spaced and not token.glue:
            pieces.append(" " + token.text)
        else:
            pieces.append(token.text)
    return pieces


class Writer:
    """Writes trees in the language ``code``; equal seeds draw equal wordings."""

    code = ""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def pick(self, leaf: Leaf[Any]) -> Any:
        """Draw one of the synonyms of a word."""
        synonyms = getattr(leaf.value, self.code)
        if len(synonyms) == 1 or self._rng.random() < USUAL:
            return synonyms[0]
        return self._rng.choice(synonyms[1:])

    def chance(self, p: float) -> bool:
        """Whether to use the rarer of two orders, with probability ``p``."""
        return self._rng.random() < p

    def word(self, leaf: Leaf[Any]) -> Token:
        """Return one of the synonyms of a word as a token."""
        return Token(self.pick(leaf), (leaf.id,))

    def words(self, leaf: Leaf[Any]) -> list[Token]:
        """Return one of the synonyms of a word, which may be several words."""
        return split(self.pick(leaf), leaf.id)

    def optional_words(self, leaf: Leaf[Any] | None) -> list[Token]:
        """Return the words of a leaf, or none if there is no leaf."""
        if leaf is None:
            return []
        return self.words(leaf)

    def usual(self, leaf: Leaf[Any]) -> Token:
        """Return the first of the synonyms of a word."""
        return Token(getattr(leaf.value, self.code)[0], (leaf.id,))
