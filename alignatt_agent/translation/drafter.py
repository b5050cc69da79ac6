"""Request drafts from the translation engine, with the previous draft as expected tokens."""

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from alignatt_agent.translation.loops import loop_cut
from alignatt_agent.translation.prompt import PromptBuilder
from alignatt_agent.translation.quotations import ATTEMPTS, has_quotation_mark, opening_mark
from alignatt_agent.translation.unit_times import source_words
from alignatt_agent.translation.units import UnitDecoder
from alignatt_agent.types import Draft, DraftContext, Prompt
from alignatt_agent.types.engines import DraftRequest, Gate, Readout, TranslationEngine
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
        frontier = 0
        for word in self.prompt.token_word:
            if word < self.accessible:
                frontier += 1
        return frontier

    @property
    def translation(self) -> tuple[int, ...]:
        """Return the accepted tokens and the scanned drafted tokens."""
        return self.prefix + self.draft.token_ids[: self.scanned]

    def context(self, units: UnitDecoder) -> DraftContext:
        """Return the input for policies that do not read attention."""
        begin = len(self.prefix)
        continuations: list[tuple[int, ...]] = []
        for translation in self.earlier:
            continuation = translation[begin:]
            if translation[:begin] != self.prefix:
                continuation = ()
            continuations.append(continuation)

        # These are functions, because both decode text and the AlignAtt policy reads neither.
        def unit_ends() -> tuple[int, ...]:
            cuts = units.boundaries(self.prefix + self.draft.token_ids, begin)
            return tuple(cut - begin for cut in cuts if cut > begin)

        def written() -> int:
            return len(units.units((), self.prefix))

        return DraftContext(
            unit_ends=unit_ends,
            earlier=tuple(continuations),
            heard=self.accessible,
            written=written,
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
        self._engine = engine
        self._builder = builder
        self._units = units
        self._readout = readout
        self._watch = watch
        self._verify = verify
        self.max_tokens = max_tokens
        self.expected: tuple[int, ...] = ()
        self.steps = 0

    def draft(
        self,
        source: Sequence[str],
        prompt: Prompt,
        prefix: tuple[int, ...],
        gate: Gate | None = None,
        resumed: Draft | None = None,
        room: int | None = None,
    ) -> Draft:
        """Continue ``prompt``, which ends with ``prefix``, the accepted part of the translation.

        ``source`` contains the words that the prompt asks to translate. ``resumed`` is an earlier
        draft of the same prompt to continue (see ``TranslationEngine``). ``room`` is a second limit
        on the number of tokens, in addition to ``max_tokens``.
        """
        max_tokens = self.max_tokens
        if room is not None:
            max_tokens = min(room, max_tokens)
        before = resumed or Draft((), ended=False)
        request = DraftRequest(
            prompt=prompt,
            max_tokens=max_tokens,
            readout=self._readout,
            gate=gate,
            resumed=resumed,
            expected=self._expected_after(prefix + before.token_ids),
        )
        with self._watch.stage("draft"):
            draft = self._engine.draft(request)
            if not prefix and not has_quotation_mark(" ".join(source)):
                draft = self._unquoted(request, draft)
            draft = first_line(draft, prefix, self._units.text, self._builder.ids)
        # A resumed draft includes the passes and seconds of its beginning.
        self._watch.move(draft.replay_s - before.replay_s, "draft", "replay")
        self.steps += draft.steps - before.steps
        translation = prefix + draft.token_ids
        # A draft that the engine stopped early may be the beginning of the previous draft, which
        # is longer and is therefore kept.
        if draft.ended or self.expected[: len(translation)] != translation:
            self.expected = translation
        return draft

    def _unquoted(self, request: DraftRequest, draft: Draft) -> Draft:
        """Draft again while the draft opens a quotation."""
        excluded: tuple[int, ...] = ()
        while len(excluded) < ATTEMPTS:
            mark = opening_mark(draft.token_ids, self._units.text)
            if mark is None:
                break
            excluded += (mark,)
            # No gate: the token that a gate rejects is not sampled and may be an excluded one.
            unquoted = self._engine.draft(
                replace(request, gate=None, resumed=None, expected=(), excluded=excluded)
            )
            draft = replace(
                unquoted,
                steps=draft.steps + unquoted.steps,
                replay_s=draft.replay_s + unquoted.replay_s,
            )
        return draft

    def _expected_after(self, translation: tuple[int, ...]) -> tuple[int, ...]:
        """Return the tokens after ``translation`` in the previous draft, if they agree."""
        if not self._verify:
            return ()
        if self.expected[: len(translation)] != translation:
            return ()
        return self.expected[len(translation) :]

    def finish(
        self,
        build: Callable[[Sequence[str], Sequence[int]], Prompt],
        source: tuple[str, ...],
        prefix: tuple[int, ...],
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the ungated continuation of ``prefix`` to the end of the model's turn.

        ``build`` creates a prompt from a source and its translation so far. Drafts are concatenated
        until the model ends its turn, the translation loops, or it exceeds twice the expected
        length by 32 tokens. Repetitions of a loop are removed (see ``loop_cut``). The second result
        is the source word of each token, if there are rows.
        """
        produced: tuple[int, ...] = ()
        sources: tuple[int, ...] = ()
        while True:
            prompt = build(source, prefix + produced)
            most_tokens = 2 * self._builder.expansion * len(prompt.token_word)
            room = round(most_tokens) + 32 - len(produced)
            draft = self.draft(source, prompt, prefix + produced, room=room)
            produced += draft.token_ids
            sources += source_words(prompt, draft)
            cut = loop_cut(self._units, prefix + produced, source, draft.ended)
            if cut is not None:
                # A loop may begin in the emitted prefix, which stays as it is.
                count = max(0, cut - len(prefix))
                produced = produced[:count]
                sources = sources[:count]
            # After an empty draft, the next draft would be empty as well.
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
    accepted_text = text(before).lstrip()
    previous_text = accepted_text
    for position in range(len(draft.token_ids)):
        # A token alone may be part of a character, so the whole text is decoded.
        token_ids = [*before, *draft.token_ids[: position + 1]]
        new_text = text(token_ids).lstrip()
        if _LINE_BREAK.search(new_text) is None:
            previous_text = new_text
            continue
        line = _LINE_BREAK.split(new_text, maxsplit=1)[0]
        # Text before the break in this token, but never again text that is already accepted.
        begin = max(len(accepted_text), len(previous_text))
        line_end = ids(line[begin:].rstrip())
        return _cut_draft(draft, position, line_end)
    return draft


def _cut_draft(draft: Draft, position: int, line_end: Sequence[int]) -> Draft:
    """Return the tokens before ``position``, and ``line_end``, the text of the token there."""
    places = [*range(position)]
    # All tokens of this text have the row and the probability of the token that contained it.
    places += [position] * len(line_end)
    rows = draft.rows
    if rows is not None:
        rows = rows[np.array(places, np.intp)]
    probabilities: tuple[float, ...] = ()
    if draft.probabilities:
        probabilities = tuple(draft.probabilities[place] for place in places)
    return replace(
        draft,
        token_ids=(*draft.token_ids[:position], *line_end),
        rows=rows,
        probabilities=probabilities,
        ended=True,
        cut=False,
    )
