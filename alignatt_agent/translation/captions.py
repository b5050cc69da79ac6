"""Emit captions in the spoken language, instead of a translation."""

from collections.abc import Sequence

from alignatt_agent.types import Emission, GatedDraft, SourceSpan, SourceView, Word


class Captions:
    """Emits every closed sentence as recognized, because the open utterance may still change."""

    gated: GatedDraft | None = None
    steps = 0
    emitted = 0
    _accepted = ""  # already emitted text of the next words

    def reset(self) -> None:
        """Do nothing: there is no state."""

    def remember(self, sentences: Sequence[tuple[str, str]], accepted: str = "") -> None:
        """Skip the words of ``accepted``, which will be recognized again."""
        self._accepted = accepted.strip()

    def draft_ahead(self, view: SourceView) -> None:
        """Do nothing."""

    def update(self, view: SourceView) -> Emission:
        """Emit nothing yet."""
        return Emission()

    def complete(self, words: Sequence[Word]) -> Emission:
        """Emit the words of a sentence."""
        while words and self._accepted:
            self._accepted = self._accepted[len(words[0].text) :].lstrip()
            words = words[1:]
        times = tuple(SourceSpan(word.start, word.end) for word in words)
        return Emission(tuple(word.gap + word.text for word in words), times)
