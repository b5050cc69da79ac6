"""Closed sentences with their translations, in front of the open one."""

from collections.abc import Sequence

from alignatt_agent.translation.prompt import PromptBuilder
from alignatt_agent.types import Prompt
from alignatt_agent.types.running_text import split_words

GROWTH = 3
"""The window grows to so many times its size before it is cut: a cut moves all that follows, so
the engine computes the rest of the window again. Tokens computed for the 595 chunks of the embedded
dev set, drafts and blocks of 16 tokens as of a run without, en-de and en-zh: 1.32 and 1.31 times
those without a history for a window of two that moves, 1.10 at 2 times, 1.06 and 1.07 at 3."""


class History:
    """The beginning of prompts of one target; it only grows, until it is cut by whole sentences.

    At least so many ``sentences`` are kept, if they fit into so many ``tokens``; 0 keeps none.
    """

    def __init__(self, builder: PromptBuilder, sentences: int = 0, tokens: int = 0) -> None:
        self._builder = builder
        self._least = sentences
        self._most_tokens = tokens
        self._closed: list[tuple[tuple[str, ...], tuple[int, ...]]] = []
        self._ids: tuple[int, ...] = ()

    def add(self, words: Sequence[str], translation: Sequence[int]) -> None:
        """Append a sentence and the ids of its translation; one without either is left out."""
        if not (self._least and words and translation):
            return
        self._closed.append((tuple(words), tuple(translation)))
        too_many = len(self._closed) > GROWTH * self._least
        if too_many or len(self._serialized()) > self._most_tokens:
            del self._closed[: -self._least]
        while len(ids := self._serialized()) > self._most_tokens:
            del self._closed[0]
        self._ids = ids

    def remember(self, sentences: Sequence[tuple[str, str]]) -> None:
        """Append sentences that were translated elsewhere, with their translations."""
        for source, translation in sentences:
            self.add(split_words(source), self._builder.ids(translation))

    def prompt(self, words: Sequence[str], accepted: Sequence[int]) -> Prompt:
        """Build the prompt of the open sentence, see ``PromptBuilder.build``."""
        return self._builder.build(words, accepted, self._ids)

    def _serialized(self) -> tuple[int, ...]:
        found: tuple[int, ...] = ()
        for words, translation in self._closed:
            found += self._builder.closed(words, translation, first=not found)
        return found
