"""Requests drafts from the translation engine, with the previous draft as expected tokens."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from alignatt_agent.translation.unit_times import source_words
from alignatt_agent.types import Draft, Prompt
from alignatt_agent.types.engines import Gate, Readout, TranslationEngine
from alignatt_agent.types.repetition import loop_start
from alignatt_agent.types.stopwatch import Stopwatch

LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Drafted:
    """A draft with the state it continues, kept to be gated again when the frontier moves.

    ``earlier`` holds the whole translations of earlier sources of the utterance, latest first;
    ``scanned`` counts the drafted tokens that the policy read.
    """

    source: tuple[str, ...]
    prefix: tuple[int, ...]
    prompt: Prompt
    draft: Draft
    earlier: tuple[tuple[int, ...], ...] = ()
    scanned: int = 0

    @property
    def translation(self) -> tuple[int, ...]:
        """Accepted tokens, and drafted ones as far as they were scanned."""
        return self.prefix + self.draft.token_ids[: self.scanned]


class Drafter:
    """Drafts of one stream, counted and timed.

    Successive drafts are mostly equal, so the engine gets the previous one as expected tokens and
    verifies it in one pass (unless ``verify`` is false). ``steps`` counts forward passes. A token
    of the source may need so many (``expansion``) of the target. ``whole`` ends a draft, given the
    translation before it, where it stops being one.
    """

    def __init__(
        self,
        engine: TranslationEngine,
        watch: Stopwatch,
        verify: bool,
        expansion: float = 1.0,
        whole: Callable[[Draft, Sequence[int]], Draft] = lambda draft, before: draft,
    ) -> None:
        self._engine, self._expansion, self._whole = engine, expansion, whole
        self._watch = watch
        self._verify = verify
        self._expected: tuple[int, ...] = ()
        self.steps = 0

    def expect(self, whole: tuple[int, ...] = ()) -> None:
        """Expect ``whole`` as the translation of the utterance that is open now."""
        self._expected = whole

    def expected_after(self, prefix: tuple[int, ...]) -> tuple[int, ...]:
        """Return how the last draft goes on after ``prefix``, if it begins with that."""
        same = self._verify and self._expected[: len(prefix)] == prefix
        return self._expected[len(prefix) :] if same else ()

    def draft(
        self,
        prompt: Prompt,
        prefix: tuple[int, ...],
        max_tokens: int,
        readout: Readout | None = None,
        gate: Gate | None = None,
        begun: Draft | None = None,
    ) -> Draft:
        """Continue ``prompt``, which ends with the accepted translation ``prefix`` of its source.

        ``begun``, an earlier draft of the same prompt, is continued; see ``TranslationEngine``.
        """
        before = begun or Draft((), False)
        expected = self.expected_after(prefix + before.token_ids)
        with self._watch.stage("draft"):
            draft = self._engine.draft(prompt, max_tokens, readout, gate, begun, expected)
            draft = self._whole(draft, prefix)
        self._watch.move(draft.replay_s - before.replay_s, "draft", "replay")
        self.steps += draft.steps - before.steps
        whole = prefix + draft.token_ids
        if draft.ended or self._expected[: len(whole)] != whole:
            self._expected = whole  # else the last draft continues where this one was cut
        return draft

    def finish(
        self,
        build: Callable[[Sequence[str], Sequence[int]], Prompt],
        source: tuple[str, ...],
        kept: tuple[int, ...],
        max_tokens: int,
        readout: Readout | None,
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the ungated continuation of ``kept`` to the end of the model's turn.

        ``build`` makes a prompt of a source and its translation so far. Drafts of at most
        ``max_tokens`` follow one another, until the translation repeats itself or has twice the
        tokens that it needs, and 32 more. The second result is the source word of each token, if
        ``readout`` gives rows.
        """
        produced: tuple[int, ...] = ()
        sources: tuple[int, ...] = ()
        while True:
            prompt = build(source, kept + produced)
            room = round(2 * self._expansion * len(prompt.token_word)) + 32 - len(produced)
            draft = self.draft(prompt, kept + produced, min(max_tokens, room), readout)
            produced += draft.token_ids
            sources += source_words(prompt, draft)
            if draft.ended or not draft.token_ids:
                return produced, sources
            if len(draft.token_ids) >= room or loop_start(kept + produced) is not None:
                LOGGER.warning("the translation of %d words does not end and is cut", len(source))
                return produced, sources
