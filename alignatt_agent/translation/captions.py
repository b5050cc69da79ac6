"""Captions of the speech itself, instead of a translation."""

from collections.abc import Sequence

from alignatt_agent.types import Emission, GatedDraft, SourceSpan, SourceView, Word


class Captions:
    """Emits every closed sentence as recognized; the open utterance may still change."""

    gated: GatedDraft | None = None
    steps = 0
    emitted = 0
    _accepted = ""  # of what comes next, was emitted before

    def __init__(self, spaced: bool) -> None:
        self._space = " " * spaced  # between sentences

    def reset(self) -> None:
        """Do nothing: there is no state."""

    def remember(self, sentences: Sequence[tuple[str, str]], accepted: str = "") -> None:
        """Leave out the words of ``accepted``, which are recognized again."""
        self._accepted = accepted.strip()

    def draft_ahead(self, view: SourceView) -> None:
        """Do nothing."""

    def update(self, view: SourceView) -> Emission:
        """Emit nothing yet."""
        return Emission()

    def complete(self, words: Sequence[Word]) -> Emission:
        """Emit the words of a sentence."""
        units = [(word.gap if k else self._space) + word.text for k, word in enumerate(words)]
        times = [SourceSpan(word.start, word.end) for word in words]
        while units and self._accepted:
            self._accepted = self._accepted[len(units.pop(0).strip()) :].lstrip()
        return Emission(tuple(units), tuple(times[len(times) - len(units) :]))
