"""Translate successive utterances: draft, gate, round to units, emit."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from alignatt_agent.policy import Policy
from alignatt_agent.translation.alignment import carry_over, first_of_next, repeated_of
from alignatt_agent.translation.drafter import Drafted, Drafter
from alignatt_agent.translation.history import History
from alignatt_agent.translation.loops import loop_cut
from alignatt_agent.translation.prompt import PromptBuilder
from alignatt_agent.translation.unit_times import source_words, spans, spread
from alignatt_agent.translation.units import UnitDecoder, ends_clause
from alignatt_agent.translation.utterance import StreamState, Utterance
from alignatt_agent.types import Decision, Draft, Emission, GatedDraft, SourceView, Word
from alignatt_agent.types.engines import Readout, TranslationEngine
from alignatt_agent.types.running_text import has_letters
from alignatt_agent.types.stopwatch import Stopwatch

MEMORY = 8
"""Number of drafts of earlier sources that a policy receives."""


class Translator:
    """Translates a stream of utterances, with append-only output.

    The accepted token ids of the open utterance only grow, and their text is the emitted text. A
    draft that continues the last word is appended to that word. Rejecting such a draft would change
    the number ``3,5`` to ``3``, and waiting would hold back the whole sentence. Each step computes
    a new ``StreamState`` and replaces the old state only at the end. After an exception, the state
    is therefore unchanged, and the call may be repeated.

    Args:
        readout: attention rows to read; without rows, the source words of tokens are unknown, and
            accepted tokens are never moved to the next sentence.
        spaced: whether the target language separates words by white space.
        early_stop: whether the engine ends a draft at the token that the policy rejects.
        verify: whether the engine verifies the previous draft (see ``Drafter``).
        history: receives closed sentences, and precedes the open sentence in prompts.
    """

    def __init__(
        self,
        engine: TranslationEngine,
        prompt_builder: PromptBuilder,
        tokenizer: Any,
        readout: Readout | None,
        policy: Policy,
        spaced: bool,
        max_draft_tokens: int,
        early_stop: bool = True,
        verify: bool = True,
        watch: Stopwatch | None = None,
        history: History | None = None,
    ) -> None:
        self._units = UnitDecoder(tokenizer, spaced)
        drafts = engine, prompt_builder, self._units, readout, max_draft_tokens
        self._drafter = Drafter(*drafts, watch or Stopwatch(), verify)
        self._policy = policy
        self._early_stop = early_stop
        self._state = StreamState(history or History(prompt_builder))

    @property
    def steps(self) -> int:
        """Return the number of forward passes of all drafts so far."""
        return self._drafter.steps

    @property
    def accepted(self) -> tuple[int, ...]:
        """Return the accepted token ids of the open utterance; their text is emitted."""
        return self._state.utterance.accepted

    @property
    def emitted(self) -> int:
        """Return the number of emitted tokens."""
        return self._state.emitted

    @property
    def gated(self) -> GatedDraft | None:
        """Return the draft and the decision of the last ``update``, if any."""
        return self._state.gated

    def reset(self) -> None:
        """Discard the open utterance."""
        self._state = replace(self._state, utterance=Utterance(), gated=None)

    def remember(self, sentences: Sequence[tuple[str, str]], accepted: str = "") -> None:
        """Add sentences to the history; ``accepted`` is the open sentence's translation so far."""
        history = self._state.history.remember(sentences)
        utterance = Utterance().accepting(history.builder.ids(accepted), ())
        utterance = replace(utterance, apart=not utterance.accepted)
        self._state = replace(self._state, history=history, utterance=utterance)

    def update(self, view: SourceView) -> Emission:
        """Extend the translation of the open utterance by the tokens that the policy accepts.

        A new source needs a new draft. If only the frontier moved, the last draft is gated again.
        """
        source, accessible = _read(view)
        utterance, emission = self._state.utterance.hearing(source), Emission()
        state = replace(self._state, utterance=utterance, gated=None)
        speech = accessible > 0 and has_letters(source)
        if speech and not utterance.decided(source, accessible):
            state, emission = self._accept(
                state, *self._gate(state, source, accessible), view.words
            )
        self._state = state
        return emission

    def draft_ahead(self, view: SourceView) -> None:
        """Draft ahead for an ``update`` with the same words; ``accessible`` may differ."""
        (source, accessible), state = _read(view), self._state
        speech = accessible > 0 and has_letters(source)
        if speech and not state.utterance.decided(source):
            ahead, _ = self._gate(state, source, accessible)
            utterance = replace(state.utterance, ahead=ahead, expected=self._drafter.expected)
            self._state = replace(state, utterance=utterance)

    def complete(self, words: Sequence[Word]) -> Emission:
        """Translate a closed sentence to its end, and open the next utterance.

        Drafts without a gate are concatenated until the model ends its turn, up to the limit in
        ``Drafter.finish``. A sentence of marks alone adds nothing. Accepted tokens that are aligned
        past the sentence become the accepted prefix of the next utterance, except tokens that the
        model now repeats: these belong to this sentence and are not emitted again. If such a prefix
        remains, nothing is emitted, because the text would follow words of the next sentence. On
        300 real sentences, emitting it lowered BLEU by 0.33 [0.14, 0.61] (laptop-low into German).
        """
        source = tuple(word.text for word in words)
        if not source:
            return Emission()
        state, now = self._state, self._state.utterance
        places = carry_over(now.source, source)
        aligned = tuple(None if word is None else places[word] for word in now.aligned)
        split = first_of_next(self._units, now.accepted, aligned, len(source))
        kept, rest = now.accepted[:split], now.accepted[split:]

        self._drafter.expected = now.expected
        finish: tuple[int, ...] = ()
        sources: tuple[int, ...] = ()
        if has_letters(source):  # for marks alone, models invent a sentence
            finish, sources = self._drafter.finish(state.history.prompt, source, kept)
        repeated = repeated_of(self._units, kept, rest, finish)
        kept, rest = kept + rest[:repeated], rest[repeated:]
        finish = () if rest else finish[repeated:]
        sources = sources[repeated : repeated + len(finish)]
        state, emission = self._emit(state, kept, finish, sources, words)

        done = kept + finish
        opened = Utterance(
            source=now.source[sum(place < len(source) for place in places) :],
            accepted=rest,
            aligned=tuple(
                None if word is None else max(0, word - len(source))
                for word in aligned[len(aligned) - len(rest) :]
            ),
            # The last draft may include the next sentence.
            expected=now.expected[len(done) :] if now.expected[: len(done)] == done else (),
            apart=not rest,
        )
        history = state.history.add(source, done) if has_letters(source) else state.history
        self._state = replace(state, history=history, utterance=opened)
        return emission

    def _gate(
        self, state: StreamState, source: tuple[str, ...], accessible: int
    ) -> tuple[Drafted, Decision]:
        """Return the draft for ``source`` (an earlier draft if still valid) and the decision."""
        now = state.utterance
        self._drafter.expected = now.expected
        drafts = (draft for draft in (now.ahead, now.drafted) if draft and draft.source == source)
        drafted = next(drafts, None)
        if drafted is None:
            prompt = state.history.prompt(source, now.accepted)
            nothing = Draft((), False, cut=True)
            last = now.drafted
            earlier = (last.translation, *last.earlier)[:MEMORY] if last else ()
            drafted = Drafted(source, now.accepted, prompt, nothing, earlier)
        drafted = replace(drafted, accessible=accessible)
        frontier = drafted.frontier
        gate = self._policy.gate(frontier) if self._early_stop else None
        while True:
            draft = drafted.draft
            decision = self._policy.decide(draft, frontier, drafted.context(self._units))
            done = not draft.cut or len(draft.token_ids) >= self._drafter.max_tokens
            if done or decision.closed:
                scanned = len(decision.peaks) or len(draft.token_ids)
                return replace(drafted, scanned=scanned), decision
            # The frontier moved after the engine stopped at the gate, or there is no draft yet.
            begun = draft if draft.token_ids else None
            draft = self._drafter.draft(drafted.prompt, drafted.prefix, gate, begun)
            drafted = replace(drafted, draft=draft)

    def _accept(
        self, state: StreamState, drafted: Drafted, decision: Decision, words: Sequence[Word]
    ) -> tuple[StreamState, Emission]:
        """Emit the part of a draft that the policy accepts, in whole units."""
        now, draft = state.utterance.deciding(drafted, self._drafter.expected), drafted.draft
        state, emission = replace(state, utterance=now), Emission()
        # Recognizers punctuate a word only when they know the next words, and a later mark
        # cannot be attached to an emitted word.
        heard = drafted.accessible == len(drafted.source)
        closed = draft.ended and heard and ends_clause(drafted.source[-1])
        taken = len(now.accepted) - len(drafted.prefix)
        prefix = drafted.prefix
        whole = self._units.complete(prefix, draft.token_ids, decision.accepted, closed)
        written = prefix + draft.token_ids[:whole]
        cut = loop_cut(self._units, written, drafted.source, ended=True)
        if cut is not None:
            whole = max(0, cut - len(prefix))
        if whole > taken:
            added = draft.token_ids[taken:whole]
            sources = source_words(drafted.prompt, draft)[taken:whole]
            state, emission = self._emit(state, now.accepted, added, sources, words)
            peaks = decision.peaks[taken:whole]
            aligned = tuple(drafted.prompt.token_word[peak] for peak in peaks)
            state = replace(state, utterance=state.utterance.accepting(added, aligned))
        gated = self._trace(drafted, decision, max(taken, whole))
        return replace(state, gated=gated), emission

    def _trace(self, drafted: Drafted, decision: Decision, emitted: int) -> GatedDraft:
        words, border = drafted.prompt.token_word, self._policy.edge(drafted.frontier)
        return GatedDraft(
            accepted=self._units.text(drafted.prefix),
            tokens=self._units.tokens(drafted.draft.token_ids),
            words=tuple(words[peak] for peak in decision.peaks),
            decision=decision,
            edge=words[border] if border < len(words) else len(drafted.source),
            emitted=emitted,
        )

    def _emit(
        self,
        state: StreamState,
        before: tuple[int, ...],
        added: tuple[int, ...],
        sources: Sequence[int],
        words: Sequence[Word],
    ) -> tuple[StreamState, Emission]:
        """Emit the units of ``added`` tokens; ``sources`` contains their source words."""
        units, now = self._units.units(before, added), state.utterance
        if len(sources) == len(added):
            times = spans(self._units.owners(before, added), sources, words)
        else:
            times = spread(len(units), state.told, words[0].start, words[-1].end)
        if units and now.apart:
            units = (self._units.apart(state.unit, units[0]), *units[1:])
        start = times[-1].start if times else state.told[0]
        state = replace(
            state,
            utterance=replace(now, apart=now.apart and not units),
            emitted=state.emitted + len(added),
            unit=(units or (state.unit,))[-1],
            told=(start, max(state.told[1], words[-1].end)),
        )
        return state, Emission(units, times)


def _read(view: SourceView) -> tuple[tuple[str, ...], int]:
    """Return the words of a view, and the number of accessible words."""
    return tuple(word.text for word in view.words), min(view.accessible, len(view.words))
