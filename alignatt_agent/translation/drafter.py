"""Request drafts from the translation engine, with the previous draft as expected tokens."""

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from alignatt_agent.translation.loops import loop_cut
from alignatt_agent.translation.prompt import PromptBuilder
from alignatt_agent.translation.unit_times import source_words
from alignatt_agent.translation.units import UnitDecoder
from alignatt_agent.types import Draft, DraftContext, Prompt
from alignatt_agent.types.engines import Gate, Readout, TranslationEngine
from alignatt_agent.types.stopwatch import Stopwatch

LOGGER = logging.getLogger(__name__)

_LINE_BREAK = re.compile(r"[\n\v\f\r\x85\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Drafted:
    """A draft and the state that it continues; the draft is gated again when the frontier moves.

    ``earlier`` contains the ``translation`` of each earlier source of the utterance, latest first.
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
        """Return the input for policies that do not read attention."""
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

    Successive drafts mostly agree. Unless ``verify`` is false, the engine therefore receives the
    previous draft as expected tokens and verifies it in one pass. ``expected`` is the translation
    of the open utterance in the last whole draft. ``steps`` counts forward passes. A draft contains
    at most ``max_tokens`` tokens.
    """

    def __init__(
        self,
        engine: TranslationEngine,
        builder: PromptBuilder,
        units: UnitDecoder,
        readout: Readout | None,
        max_tokens: int,
        watch: Stopwatch,
        verify: bool,
    ) -> None:
        self._engine, self._builder, self._units = engine, builder, units
        self._readout, self._watch, self._verify = readout, watch, verify
        self.max_tokens = max_tokens
        self.expected: tuple[int, ...] = ()
        self.steps = 0

    def draft(
        self,
        prompt: Prompt,
        prefix: tuple[int, ...],
        gate: Gate | None = None,
        resumed: Draft | None = None,
        room: int | None = None,
    ) -> Draft:
        """Continue ``prompt``, which ends with ``prefix``, the accepted part of the translation.

        ``resumed`` is an earlier draft of the same prompt to continue (see ``TranslationEngine``).
        ``room`` is a second limit on the number of tokens, in addition to ``max_tokens``.
        """
        most = self.max_tokens if room is None else min(room, self.max_tokens)
        before = resumed or Draft((), False)
        known = prefix + before.token_ids
        same = self._verify and self.expected[: len(known)] == known
        expected = self.expected[len(known) :] if same else ()
        with self._watch.stage("draft"):
            draft = self._engine.draft(prompt, most, self._readout, gate, resumed, expected)
            draft = first_line(draft, prefix, self._units.text, self._builder.ids)
        self._watch.move(draft.replay_s - before.replay_s, "draft", "replay")
        self.steps += draft.steps - before.steps
        whole = prefix + draft.token_ids
        if draft.ended or self.expected[: len(whole)] != whole:
            self.expected = whole  # else keep the previous draft, which is longer
        return draft

    def finish(
        self,
        build: Callable[[Sequence[str], Sequence[int]], Prompt],
        source: tuple[str, ...],
        kept: tuple[int, ...],
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the ungated continuation of ``kept`` to the end of the model's turn.

        ``build`` creates a prompt from a source and its translation so far. Drafts are concatenated
        until the model ends its turn, the translation loops, or it exceeds twice the expected
        length by 32 tokens. Repetitions of a loop are removed (see ``loop_cut``). The second result
        is the source word of each token, if there are rows.
        """
        produced: tuple[int, ...] = ()
        sources: tuple[int, ...] = ()
        while True:
            prompt = build(source, kept + produced)
            expected = 2 * self._builder.expansion * len(prompt.token_word)
            room = round(expected) + 32 - len(produced)
            draft = self.draft(prompt, kept + produced, room=room)
            produced += draft.token_ids
            sources += source_words(prompt, draft)
            cut = loop_cut(self._units, kept + produced, source, draft.ended)
            if cut is not None:
                count = max(0, cut - len(kept))
                produced, sources = produced[:count], sources[:count]
            if draft.ended or not draft.token_ids:
                return produced, sources
            if cut is not None or len(draft.token_ids) >= room:
                LOGGER.warning("an endless translation of %d source words was cut", len(source))
                return produced, sources


def first_line(
    draft: Draft,
    before: Sequence[int],
    text: Callable[[Sequence[int]], str],
    ids: Callable[[str], Sequence[int]],
) -> Draft:
    r"""Return ``draft`` up to its first line break, marked as ended there.

    After a line break, instruction-tuned models comment on a translation, repeat it or answer it.
    The prompt contains one line to translate, so a line break ends a draft as an end of turn does.
    A token may contain both text and a break (``".\n\n"``); only its text is kept.

    ``before`` is the accepted translation; ``text`` decodes ids, and ``ids`` encodes a text.
    """
    texts = [
        text([*before, *draft.token_ids[:k]]).lstrip() for k in range(len(draft.token_ids) + 1)
    ]
    k = next((k for k, line in enumerate(texts[1:]) if _LINE_BREAK.search(line)), None)
    if k is None:
        return draft
    line = _LINE_BREAK.split(texts[k + 1], maxsplit=1)[0]
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
