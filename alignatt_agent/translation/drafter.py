"""Request drafts from the translation engine, with the previous draft as expected tokens."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from alignatt_agent.translation.unit_times import source_words
from alignatt_agent.translation.units import UnitDecoder
from alignatt_agent.types import Draft, DraftContext, Prompt
from alignatt_agent.types.engines import Gate, Readout, TranslationEngine
from alignatt_agent.types.repetition import loop_start
from alignatt_agent.types.stopwatch import Stopwatch

LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Drafted:
    """A draft and the state that it continues; the draft is gated again when the frontier moves.

    ``earlier`` has the complete translations of earlier sources of the utterance, latest first.
    ``accessible`` is the number of accessible words; the policy read ``scanned`` drafted tokens.
    """

    source: tuple[str, ...]
    prefix: tuple[int, ...]
    prompt: Prompt
    draft: Draft
    earlier: tuple[tuple[int, ...], ...] = ()
    accessible: int = 0
    scanned: int = 0

    @property
    def frontier(self) -> int:
        """Return the number of source tokens of accessible words."""
        return sum(word < self.accessible for word in self.prompt.token_word)

    @property
    def translation(self) -> tuple[int, ...]:
        """Return the accepted tokens and the scanned drafted tokens."""
        return self.prefix + self.draft.token_ids[: self.scanned]

    def context(self, units: UnitDecoder) -> DraftContext:
        """Return the input of policies that do not read attention."""
        begin = len(self.prefix)

        def unit_ends() -> tuple[int, ...]:
            cuts = units.boundaries(self.prefix + self.draft.token_ids, begin)
            return tuple(cut - begin for cut in cuts if cut > begin)

        return DraftContext(
            unit_ends,
            tuple(known[begin:] if known[:begin] == self.prefix else () for known in self.earlier),
            self.accessible,
            written=lambda: len(units.units((), self.prefix)),
        )


class Drafter:
    """Requests, counts and times the drafts of one stream.

    Successive drafts are mostly equal. The engine therefore receives the previous draft as expected
    tokens and verifies it in one pass (unless ``verify`` is false). ``expected`` is the translation
    of the open utterance in the last complete draft. ``steps`` counts forward passes. A source
    token may need up to ``expansion`` target tokens. ``whole`` cuts a draft at the end of the
    translation, given the translation before it.
    """

    def __init__(
        self,
        engine: TranslationEngine,
        watch: Stopwatch,
        verify: bool,
        expansion: float = 1.0,
        whole: Callable[[Draft, Sequence[int]], Draft] = lambda draft, before: draft,
    ) -> None:
        self._engine, self._watch, self._verify = engine, watch, verify
        self._expansion, self._whole = expansion, whole
        self.expected: tuple[int, ...] = ()
        self.steps = 0

    def draft(
        self,
        prompt: Prompt,
        prefix: tuple[int, ...],
        max_tokens: int,
        readout: Readout | None = None,
        gate: Gate | None = None,
        resumed: Draft | None = None,
    ) -> Draft:
        """Continue ``prompt``, which ends with the accepted translation ``prefix`` of its source.

        ``resumed`` is an earlier draft of the same prompt to continue, see ``TranslationEngine``.
        """
        before = resumed or Draft((), False)
        known = prefix + before.token_ids
        same = self._verify and self.expected[: len(known)] == known
        expected = self.expected[len(known) :] if same else ()
        with self._watch.stage("draft"):
            draft = self._engine.draft(prompt, max_tokens, readout, gate, resumed, expected)
            draft = self._whole(draft, prefix)
        self._watch.move(draft.replay_s - before.replay_s, "draft", "replay")
        self.steps += draft.steps - before.steps
        whole = prefix + draft.token_ids
        if draft.ended or self.expected[: len(whole)] != whole:
            self.expected = whole  # the previous draft continues where this draft was cut
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

        ``build`` builds a prompt from a source and its translation so far. Drafts of at most
        ``max_tokens`` are concatenated until the translation loops, or exceeds by 32 tokens
        twice the expected length. The second result is the source word of each token, if
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
                LOGGER.warning("an endless translation of %d source words is cut", len(source))
                return produced, sources


def first_line(
    draft: Draft,
    before: Sequence[int],
    text: Callable[[Sequence[int]], str],
    ids: Callable[[str], Sequence[int]],
) -> Draft:
    r"""Return ``draft`` up to its first line break, marked as ended there.

    After a line break, instructed models comment on a translation, repeat it or answer it. The
    prompt has one line to translate, so the first line break ends a draft like the end of a turn.
    A token may contain both text and a break (``".\n\n"``); only its text is kept.

    Args:
        draft: the continuation of ``before``.
        before: accepted translation.
        text: decodes ids.
        ids: encodes text.
    """
    texts = [
        text([*before, *draft.token_ids[:k]]).lstrip() for k in range(len(draft.token_ids) + 1)
    ]
    k = next((k for k, line in enumerate(texts[1:]) if "\n" in line), None)
    if k is None:
        return draft
    line = texts[k + 1].partition("\n")[0]
    rest = ids(line[max(len(texts[0]), len(texts[k])) :].rstrip())
    places = [*range(k), *[k] * len(rest)]
    return replace(
        draft,
        token_ids=(*draft.token_ids[:k], *rest),
        rows=None if draft.rows is None else draft.rows[np.array(places, np.intp)],
        probabilities=tuple(draft.probabilities[at] for at in places if draft.probabilities),
        ended=True,
        cut=False,
    )
