"""Words with identities, and how they become text."""

from __future__ import annotations

from dataclasses import dataclass

END = 0
"""Identity of the sentence-final full stop."""


@dataclass(frozen=True, slots=True)
class Token:
    """A word or a punctuation mark."""

    text: str
    ids: tuple[int, ...]  # of the leaves it depends on; it is aligned to the first
    glue: bool = False  # no space before it


def split(text: str, *ids: int) -> list[Token]:
    """Return one token a word and a comma."""
    tokens = []
    for word in text.split():
        tokens.append(Token(word.rstrip(","), ids))
        if word.endswith(","):
            tokens.append(Token(",", ids, glue=True))
    return tokens


def capitalize(tokens: list[Token]) -> list[Token]:
    """Return ``tokens`` with the first letter in upper case."""
    first = tokens[0]
    return [Token(first.text[0].upper() + first.text[1:], first.ids, first.glue), *tokens[1:]]


def merge_marks(tokens: list[Token]) -> list[Token]:
    """Drop a comma that stands directly before another mark."""
    return [
        token
        for token, after in zip(tokens, [*tokens[1:], Token("", ())], strict=True)
        if not (token.text in ",，" and after.glue)
    ]


def surface(tokens: list[Token], *, spaced: bool) -> list[str]:
    """Return the written pieces whose concatenation is the sentence."""
    pieces = []
    for i, token in enumerate(tokens):
        pieces.append(("" if i == 0 or token.glue or not spaced else " ") + token.text)
    return pieces
