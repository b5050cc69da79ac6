"""Emit captions in the spoken language, instead of a translation."""

from collections.abc import Sequence

from alignatt_agent.types import Emission, GatedDraft, SourceSpan, SourceView, Word


class Captions:
    """Emits every closed sentence as recognized, because the open utterance may still change."""

    # Attributes of ``Translator`` that a step reads: captions need no drafts.
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
        # Recognized again after a lost connection, emitted words are skipped by their lengths.
        while words and self._accepted:
            length = len(words[0].text)
            self._accepted = self._accepted[length:].lstrip()
            words = words[1:]
        units: list[str] = []
        times: list[SourceSpan] = []
        for word in words:
            units.append(word.gap + word.text)
            times.append(SourceSpan(word.start, word.end))
        return Emission(tuple(units), tuple(times))
