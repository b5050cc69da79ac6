"""Captions of the speech itself, in the place of a translation."""

from __future__ import annotations

from collections.abc import Sequence

from alignatt_agent.types import Emission, GatedDraft, SourceSpan, SourceView, Word


class Captions:
    """Says every closed sentence as it was heard.

    The open utterance is not said: the recogniser may still change it, and what was said stays.
    """

    gated: GatedDraft | None = None
    steps = 0
    emitted = 0

    def reset(self) -> None:
        """Nothing is kept."""

    def draft_ahead(self, view: SourceView) -> None:
        """There is nothing to draft."""

    def update(self, view: SourceView) -> Emission:
        """Say nothing yet."""
        return Emission()

    def complete(self, words: Sequence[Word]) -> Emission:
        """Say the words of a sentence."""
        times = tuple(SourceSpan(word.start, word.end) for word in words)
        return Emission(tuple(word.text for word in words), times)
