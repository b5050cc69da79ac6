"""The translation of one utterance after the other: draft, gate, round to units, emit."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from alignatt_agent.policy import Policy
from alignatt_agent.translation.borders import first_of_next, repeated_of
from alignatt_agent.translation.drafter import Drafted, Drafter
from alignatt_agent.translation.history import History
from alignatt_agent.translation.one_line import first_line
from alignatt_agent.translation.prompt import PromptBuilder
from alignatt_agent.translation.revision import carry_over, realigned
from alignatt_agent.translation.unit_times import source_words, spans, spread
from alignatt_agent.translation.units import UnitDecoder, ends_clause, is_punctuation
from alignatt_agent.types import (
    Decision,
    Draft,
    DraftContext,
    Emission,
    GatedDraft,
    SourceView,
    Word,
)
from alignatt_agent.types.engines import Readout, TranslationEngine
from alignatt_agent.types.repetition import loop_start
from alignatt_agent.types.stopwatch import Stopwatch

MEMORY = 8
"""Drafts of earlier sources that a policy gets."""


class Translator:
    """Append-only translation of a stream of utterances.

    The accepted token ids of the open utterance only grow, and their text is the emitted text: a
    draft that goes on inside its last word is appended to that word. Forbidding such a draft would
    turn ``3`` of ``3,5`` into another number, and waiting would hold back the whole sentence.
    After an exception of the engine everything is as before the call, which may be repeated.

    Args:
        readout: attention heads; without it a prefix has no source words and is never split.
        spaced: whether the target language separates words by white space.
        early_stop: let the engine end a draft where the policy closes.
        verify: let the engine verify the previous draft, see ``Drafter``.
        history: gets closed sentences, and stands in front of the open one.
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
        self._builder = prompt_builder
        self._history = history or History(prompt_builder)
        self._units = units = UnitDecoder(tokenizer, spaced)

        def one_line(draft: Draft, before: Sequence[int]) -> Draft:
            return first_line(draft, before, units.text, prompt_builder.ids)

        expansion = prompt_builder.expansion
        self._drafter = Drafter(engine, watch or Stopwatch(), verify, expansion, one_line)
        self._readout = readout
        self._policy = policy
        self._max_draft_tokens = max_draft_tokens
        self._early_stop = early_stop
        self._drafted: Drafted | None = None
        self._ahead: Drafted | None = None
        self._accessible = 0  # words that the latest decision could rely on
        self.emitted = 0
        self._last = ""  # emitted unit
        self._begun = False  # whether the words of a begun translation are still to come
        self._told = 0.0, 0.0  # start of the last unit, end of the speech whose units have times
        self.reset()

    def reset(self) -> None:
        """Forget the open utterance."""
        self.gated: GatedDraft | None = None
        self._open((), (), ())

    def resume(self, accepted: tuple[int, ...]) -> None:
        """Open an utterance whose translation already begins with the ``accepted`` tokens."""
        self._open((), accepted, (None,) * len(accepted))

    @property
    def steps(self) -> int:
        """Forward passes of all drafts so far."""
        return self._drafter.steps

    @property
    def accepted(self) -> tuple[int, ...]:
        """Accepted token ids of the open utterance; their text is emitted."""
        return self._accepted

    def update(self, view: SourceView) -> Emission:
        """Extend the translation of the open utterance as far as the policy allows.

        A changed source costs one draft; a moved frontier alone gates the last draft again.
        """
        self.gated = None
        source = tuple(word.text for word in view.words)
        if not source:
            # The recognizer took back every word: their translation stays emitted, but the next
            # utterance must not continue it.
            if not self._begun:
                self._open((), (), ())
            return Emission()
        self._begun = False
        accessible = min(view.accessible, len(source))
        if accessible <= 0 or (self._drafted_for(source) and accessible == self._accessible):
            return Emission()
        drafted, decision = self._gate(source, accessible)
        self._follow(source)
        self._drafted, self._ahead, self._accessible = drafted, None, accessible
        emission = self._accept(drafted, decision, accessible == len(source), view.words)
        self.gated = self._trace(drafted, decision, accessible)
        return emission

    def draft_ahead(self, view: SourceView) -> None:
        """Draft ahead for an ``update`` with the same words; its ``accessible`` may differ."""
        source = tuple(word.text for word in view.words)
        accessible = min(view.accessible, len(source))
        if accessible > 0 and not self._drafted_for(source):
            self._ahead, _ = self._gate(source, accessible)

    def complete(self, words: Sequence[Word]) -> Emission:
        """Translate a closed sentence to its end and open the next utterance.

        Drafts without a gate follow one another until the model ends its turn, at most as long as
        ``Drafter.finish`` says; what repeats itself is said once. Accepted tokens that are aligned
        past the sentence become the accepted prefix of the next utterance, without those that the
        model now repeats: they belong to this sentence and are not emitted again.
        """
        source = tuple(word.text for word in words)
        if not source:
            return Emission()
        places = carry_over(self._source, source)
        aligned = [None if word is None else places[word] for word in self._aligned]
        split = first_of_next(self._units, self._accepted, aligned, len(source))
        kept, rest = self._accepted[:split], self._accepted[split:]

        before = self._drafter.expected_after(())
        finish, sources = self._drafter.finish(
            self._history.prompt, source, kept, self._max_draft_tokens, self._readout
        )
        if (start := loop_start(kept + finish)) is not None:  # to the end of its unit
            ends = self._units.boundaries(kept + finish)
            finish = finish[: max(0, next(end for end in ends if end >= start) - len(kept))]
        repeated = repeated_of(self._units, kept, rest, finish)
        kept, rest, finish = kept + rest[:repeated], rest[repeated:], finish[repeated:]
        sources = sources[repeated : repeated + len(finish)]
        self._apart |= bool(rest)  # which was emitted last, and is not what these units continue
        emission = self._emission(kept, finish, sources, words)
        if rest and is_punctuation("".join(emission.units)):
            emission = Emission()  # a late full stop would dangle in the next sentence

        self.emitted += len(finish)
        beyond = sum(place < len(source) for place in places)
        self._open(
            self._source[beyond:],
            rest,
            tuple(
                None if word is None else max(0, word - len(source))
                for word in aligned[len(aligned) - len(rest) :]
            ),
        )
        self._apart |= bool(emission.units)
        done = kept if rest else kept + finish
        self._history.add(source, kept + finish)
        if before[: len(done)] == done:  # the last draft included the next sentence
            self._drafter.expect(before[len(done) :])
        return emission

    def remember(self, sentences: Sequence[tuple[str, str]], accepted: str = "") -> None:
        """Take sentences into the history, if there is one; ``accepted`` begins the open one."""
        self._history.remember(sentences)
        self.resume(self._builder.ids(accepted))
        self._begun = bool(accepted)

    def _open(
        self, source: tuple[str, ...], accepted: tuple[int, ...], aligned: tuple[int | None, ...]
    ) -> None:
        """Start an utterance; ``aligned`` gives the source word of every accepted token."""
        self._source = source
        self._accepted = accepted
        self._aligned = aligned
        self._drafted = self._ahead = None
        self._accessible = 0
        self._begun = False
        self._apart = not accepted  # whether the next unit continues no emitted text
        self._drafter.expect()

    def _drafted_for(self, source: tuple[str, ...]) -> bool:
        return self._drafted is not None and self._drafted.source == source

    def _gate(self, source: tuple[str, ...], accessible: int) -> tuple[Drafted, Decision]:
        """Return the draft for ``source``, an earlier one if it still holds, and its decision."""
        drafted = self._drafted
        if self._ahead is not None and self._ahead.source == source:
            drafted = self._ahead
        elif drafted is None or drafted.source != source:
            earlier = (drafted.translation, *drafted.earlier)[:MEMORY] if drafted else ()
            prompt = self._history.prompt(source, self._accepted)
            nothing = Draft((), False, cut=True)
            drafted = Drafted(source, self._accepted, prompt, nothing, earlier)
        frontier = sum(word < accessible for word in drafted.prompt.token_word)
        gate = self._policy.gate(frontier) if self._early_stop else None
        while True:
            draft = drafted.draft
            decision = self._policy.decide(draft, frontier, self._context(drafted, accessible))
            done = not draft.cut or len(draft.token_ids) >= self._max_draft_tokens
            if done or decision.closed:
                scanned = len(decision.peaks) or len(draft.token_ids)
                return replace(drafted, scanned=scanned), decision
            # The gate has opened since the engine stopped at it, or nothing is drafted yet.
            draft = self._drafter.draft(
                drafted.prompt,
                drafted.prefix,
                self._max_draft_tokens,
                self._readout,
                gate,
                draft if draft.token_ids else None,
            )
            drafted = replace(drafted, draft=draft)

    def _trace(self, drafted: Drafted, decision: Decision, accessible: int) -> GatedDraft:
        words = drafted.prompt.token_word
        border = self._policy.edge(sum(word < accessible for word in words))
        return GatedDraft(
            accepted=self._units.text(drafted.prefix),
            tokens=tuple(self._units.text((token,)) for token in drafted.draft.token_ids),
            words=tuple(words[peak] for peak in decision.peaks),
            decision=decision,
            edge=words[border] if border < len(words) else len(drafted.source),
            emitted=len(self._accepted) - len(drafted.prefix),
        )

    def _context(self, drafted: Drafted, accessible: int) -> DraftContext:
        begin = len(drafted.prefix)

        def unit_ends() -> tuple[int, ...]:
            cuts = self._units.boundaries(drafted.prefix + drafted.draft.token_ids)
            return tuple(cut - begin for cut in cuts if cut > begin)

        earlier = (
            whole[begin:] if whole[:begin] == drafted.prefix else () for whole in drafted.earlier
        )

        def written() -> int:
            return len(self._units.units((), drafted.prefix))

        return DraftContext(unit_ends, tuple(earlier), accessible, written)

    def _follow(self, source: tuple[str, ...]) -> None:
        """Carry the recorded alignment over to a revised source."""
        if source != self._source:
            self._aligned = realigned(self._aligned, self._source, source)
            self._source = source

    def _accept(
        self, drafted: Drafted, decision: Decision, source_closed: bool, words: Sequence[Word]
    ) -> Emission:
        draft = drafted.draft
        # Recognizers punctuate a word only once they know what follows, and a mark that comes later
        # cannot be glued to a word that is already out.
        closed = draft.ended and source_closed and ends_clause(drafted.source[-1])
        taken = len(self._accepted) - len(drafted.prefix)
        whole = self._units.complete(drafted.prefix, draft.token_ids, decision.accepted, closed)
        if whole <= taken:
            return Emission()
        added = draft.token_ids[taken:whole]
        sources = source_words(drafted.prompt, draft)[taken:whole]
        emission = self._emission(self._accepted, added, sources, words)
        peaks = decision.peaks[taken:whole]
        aligned = tuple(drafted.prompt.token_word[peak] for peak in peaks)
        self._accepted += added
        self.emitted += len(added)
        self._aligned += aligned if aligned else (None,) * len(added)
        return emission

    def _emission(
        self,
        before: tuple[int, ...],
        added: tuple[int, ...],
        sources: Sequence[int],
        words: Sequence[Word],
    ) -> Emission:
        """Return the units of ``added`` tokens; ``sources`` are theirs among the source words."""
        units = self._units.units(before, added)
        if len(sources) == len(added):
            times = spans(self._units.owners(before, added), sources, words)
        else:
            times = spread(len(units), self._told, words[0].start, words[-1].end)
        start = times[-1].start if times else self._told[0]
        self._told = start, max(self._told[1], words[-1].end)
        if units and self._apart:
            units = (self._units.apart(self._last, units[0]), *units[1:])
        self._last, self._apart = (units or (self._last,))[-1], self._apart and not units
        return Emission(units, times)
