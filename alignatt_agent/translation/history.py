"""Keep closed sentences with their translations, which precede the open sentence in prompts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from alignatt_agent.translation.prompt import PromptBuilder
from alignatt_agent.types import Prompt
from alignatt_agent.types.running_text import split_words

GROWTH = 3
"""Multiple of the window to which the history grows before it is cut. A cut moves later tokens, so
the engine computes the rest of the window again. Tokens computed in 595 chunks of the embedded dev
set, relative to no history (en-de, en-zh): 1.32 and 1.31 with a moving window of two sentences;
1.10 with ``GROWTH`` 2; 1.06 and 1.07 with 3 (drafts of a run without history; blocks of 16)."""


@dataclass(frozen=True, slots=True)
class History:
    """The start of all prompts of one target; it grows until whole sentences are cut.

    At least ``sentences`` sentences are kept if they fit into ``tokens`` tokens; 0 keeps none.
    ``closed`` contains the kept sentences, and ``ids`` their token ids as in a prompt.
    """

    builder: PromptBuilder
    sentences: int = 0
    tokens: int = 0
    closed: tuple[tuple[tuple[str, ...], tuple[int, ...]], ...] = ()
    ids: tuple[int, ...] = ()

    def add(self, words: Sequence[str], translation: Sequence[int]) -> "History":
        """Append a sentence and the ids of its translation, unless either is empty."""
        if not (self.sentences and words and translation):
            return self
        closed = (*self.closed, (tuple(words), tuple(translation)))
        if len(closed) > GROWTH * self.sentences or len(self._serialized(closed)) > self.tokens:
            closed = closed[-self.sentences :]
        while len(ids := self._serialized(closed)) > self.tokens:
            closed = closed[1:]
        return replace(self, closed=closed, ids=ids)

    def remember(self, sentences: Sequence[tuple[str, str]]) -> "History":
        """Append sentences with the translations of another translator."""
        history = self
        for source, translation in sentences:
            history = history.add(split_words(source), self.builder.ids(translation))
        return history

    def prompt(self, words: Sequence[str], accepted: Sequence[int]) -> Prompt:
        """Build the prompt of the open sentence (see ``PromptBuilder.build``)."""
        return self.builder.build(words, accepted, self.ids)

    def _serialized(
        self, closed: Sequence[tuple[tuple[str, ...], tuple[int, ...]]]
    ) -> tuple[int, ...]:
        found: tuple[int, ...] = ()
        for words, translation in closed:
            found += self.builder.closed(words, translation, first=not found)
        return found
