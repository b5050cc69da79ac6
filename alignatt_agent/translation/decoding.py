"""Decodes growing token ids: a new token is decoded with only a few tokens before it.

Decoding starts at a token at which no sequence of bytes is split, a unit begins, and the text after
it is unchanged. Without such a token everything is decoded.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from alignatt_agent.types.running_text import common_prefix

BROKEN = "\ufffd"
LOOK = 8
"""Such a token is searched whenever this many tokens are decoded together. For each of 400 tokens
of a sentence, with drafts of 16, Qwen3's tokenizer decodes 13 in German and 28 in Chinese."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """Text of token ids: the text of the ``tail``, after a ``head`` that no later token changes."""

    head: str = ""
    tail: tuple[int, ...] = ()
    text: str = ""


class GrowingText:
    """Texts of sequences that mostly extend the previous one; ``parts`` finds unit boundaries."""

    def __init__(self, tokenizer: Any, parts: Callable[[str, int], bool]) -> None:
        self._tokenizer, self._parts = tokenizer, parts
        self._ids: Sequence[int] = ()
        self._read = [Decoded()]

    def read(self, ids: Sequence[int]) -> list[Decoded]:
        """Return the text of every prefix of ``ids``, including the empty one."""
        same = common_prefix(self._ids, ids)
        if same < len(ids):
            found = self._read[: same + 1]
            for token in ids[same:]:
                found.append(self._next(found[-1], token))
            self._ids, self._read = tuple(ids), found
        return self._read[: len(ids) + 1]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ``ids`` alone."""
        text: str = self._tokenizer.decode(
            list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def _next(self, before: Decoded, token: int) -> Decoded:
        tail = (*before.tail, token)
        text = self.decode(tail)
        if len(tail) % LOOK == 0:
            for cut in range(len(tail) - 1, len(tail) - LOOK, -1):
                alone = self.decode(tail[cut : cut + 1])
                if BROKEN in alone or not alone.strip() or (alone.isascii() and len(alone) < 2):
                    continue  # it has no text, or may be a byte that later bytes change
                rest = self.decode(tail[cut:])
                if text.endswith(rest) and self._parts(text, len(text) - len(rest)):
                    return Decoded(before.head + text[: -len(rest)], tail[cut:], rest)
        return Decoded(before.head, tail, text)
