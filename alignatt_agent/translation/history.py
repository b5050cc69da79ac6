"""Keep closed sentences with their translations, which precede the open sentence in prompts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from alignatt_agent.text.running_text import split_words
from alignatt_agent.translation.prompt import PromptBuilder
from alignatt_agent.types import Prompt

ClosedSentence = tuple[tuple[str, ...], tuple[int, ...]]
"""The words of a sentence, and the token ids of its translation."""

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
    closed: tuple[ClosedSentence, ...] = ()
    ids: tuple[int, ...] = ()

    def add(self, words: Sequence[str], translation: Sequence[int]) -> "History":
        """Append a sentence and the ids of its translation, unless either is empty."""
        if not self.sentences:
            return self
        if not words or not translation:
            return self
        sentence = (tuple(words), tuple(translation))
        closed = (*self.closed, sentence)
        ids = self._serialized(closed)
        # Every cut moves later tokens, so as many sentences as allowed are cut at once.
        if len(closed) > GROWTH * self.sentences or len(ids) > self.tokens:
            closed = closed[-self.sentences :]
            ids = self._serialized(closed)
        while len(ids) > self.tokens:
            closed = closed[1:]
            ids = self._serialized(closed)
        return replace(self, closed=closed, ids=ids)

    def remember(self, sentences: Sequence[tuple[str, str]]) -> "History":
        """Append sentences with the translations of another translator."""
        history = self
        for source, translation in sentences:
            words = split_words(source)
            ids = self.builder.ids(translation)
            history = history.add(words, ids)
        return history

    def prompt(self, words: Sequence[str], accepted: Sequence[int]) -> Prompt:
        """Build the prompt of the open sentence (see ``PromptBuilder.build``)."""
        return self.builder.build(words, accepted, self.ids)

    def _serialized(self, closed: Sequence[ClosedSentence]) -> tuple[int, ...]:
        """Return the token ids of sentences as in a prompt."""
        ids: tuple[int, ...] = ()
        for words, translation in closed:
            # Only the first sentence follows the beginning of the prompt.
            ids += self.builder.closed(words, translation, first=not ids)
        return ids
