"""Words with identities, and how they become text."""

from __future__ import annotations

from typing import NamedTuple

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
    """Return one token a word and a comma."""
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
    """Drop a comma that stands directly before another mark."""
    following = [*tokens[1:], Token("", ())]
    pairs = zip(tokens, following, strict=True)
    return [token for token, after in pairs if not (token.text in ",，" and after.glue)]


def surface(tokens: list[Token], *, spaced: bool) -> list[str]:
    """Return the written pieces whose concatenation is the sentence."""
    first, *others = tokens
    texts = [("" if token.glue or not spaced else " ") + token.text for token in others]
    return [first.text, *texts]
