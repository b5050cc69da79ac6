"""Bounds on every policy: a search for the plan of emissions that scores best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sacrebleu import sentence_bleu

from alignatt_agent.policy import Policy
from alignatt_agent.types import NO_CONTEXT, Decision, Draft, DraftContext, SourceView, StopReason
from lab.curves.direction import Direction
from lab.policy_bench.replay import Output, timed

PRICES = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Points of sentence BLEU that one word of lag may cost; each price keeps its own best plans."""
WIDTH = 2
"""Number of plans that each price keeps after each word."""


class Take(Policy):
    """Accepts a number of units and notes how many units the draft has.

    Attributes:
        units: number of units to accept.
        seen: receives the number of units and the token ids of the draft.
    """

    name: Literal["take"] = "take"
    units: int = 0
    seen: Any = None

    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Accept the first units of ``draft``."""
        ends = (0, *context.unit_ends())
        units_in_draft = len(ends) - 1
        self.seen["units"] = units_in_draft
        self.seen["draft"] = draft.token_ids
        accepted = ends[min(self.units, units_in_draft)]
        return Decision(accepted, StopReason.HELD_BACK)


@dataclass(frozen=True, slots=True)
class Plan:
    """A sequence of emissions so far, with the translator's state after it.

    Attributes:
        output: the emitted units.
        state: the state of the translator.
        translation: text of the accepted tokens and of the rest of the last draft.
    """

    output: Output
    state: Any
    translation: str


class Search:
    """Searches the plans of one sentence with a beam; the result is a lower limit of the bound.

    The reference decides what is emitted, so no policy can be expected to reach the bound.
    """

    def __init__(
        self, direction: Direction, source: str, reference: str, tokenizer: str, step: int
    ) -> None:
        self._direction = direction
        self._reference = reference
        self._tokenizer = tokenizer
        self._words = timed(source.split())
        self._step = step
        self._spaced = direction.target.spaced
        # A translator does not return its draft, so the policy notes what it sees.
        self._seen: dict[str, Any] = {}
        self._translators: dict[int, Any] = {}
        self._scores: dict[str, float] = {}

    def best(self) -> dict[float, Output]:
        """Return the best plan for each price of a word of lag."""
        start = self._translator(0)._state
        plans = [Plan(Output(), start, "")]
        for heard in range(self._step, len(self._words), self._step):
            continued: list[Plan] = []
            for plan in plans:
                continued += self._continued(plan, heard)
            plans = self._pruned(continued, heard)
        outputs = [self._finished(plan) for plan in plans]
        best: dict[float, Output] = {}
        for price in PRICES:
            best[price] = max(outputs, key=lambda output: self._worth(output, price))
        return best

    def _translator(self, units: int) -> Any:
        """Return the translator that accepts this number of units of a draft."""
        if units not in self._translators:
            policy = Take(units=units, seen=self._seen)
            self._translators[units] = self._direction.translator(policy)
        return self._translators[units]

    def _continued(self, plan: Plan, heard: int) -> Iterator[Plan]:
        """Yield the plan with every number of units of the next draft."""
        view = SourceView(self._words[:heard], heard)
        most_emitted = -1
        units, units_in_draft = 0, 0
        while units <= units_in_draft:
            translator = self._translator(units)
            # The states of a translator are immutable, so every branch can start from one.
            translator._state = plan.state
            # Before the first word with letters, the translator does not ask its policy.
            self._seen.update(units=0, draft=())
            emission = translator.update(view)
            units_in_draft = self._seen["units"]
            # The translator may emit fewer units than the policy accepts.
            if len(emission.units) > most_emitted:
                most_emitted = len(emission.units)
                output = plan.output.adding(emission.units, heard)
                token_ids = (*plan.state.utterance.accepted, *self._seen["draft"])
                yield Plan(output, translator._state, self._direction.text(token_ids))
            units += 1

    def _finished(self, plan: Plan) -> Output:
        """Return the plan's output after the end of the sentence."""
        translator = self._translator(0)
        translator._state = plan.state
        emission = translator.complete(self._words)
        return plan.output.adding(emission.units, len(self._words))

    def _pruned(self, plans: Sequence[Plan], heard: int) -> list[Plan]:
        """Return the best plans of each price; a plan may be among the best of several prices."""
        # Of plans that accepted the same tokens, the earliest one has the least lag.
        earliest: dict[tuple[int, ...], Plan] = {}
        for plan in plans:
            accepted = plan.state.utterance.accepted
            earlier = earliest.get(accepted)
            if earlier is None or sum(plan.output.heard) < sum(earlier.output.heard):
                earliest[accepted] = plan
        chosen: dict[int, Plan] = {}
        for price in PRICES:
            ranked = sorted(
                earliest.values(),
                key=lambda plan: self._worth(self._guess(plan, heard), price),
                reverse=True,
            )
            for plan in ranked[:WIDTH]:
                chosen[id(plan)] = plan
        return list(chosen.values())

    def _guess(self, plan: Plan, heard: int) -> Output:
        """Return the plan's output as if the rest of its draft came with the next words.

        The output has only one unit, the whole text, but as many numbers of heard words as the text
        or the reference has words (characters in an unspaced script).
        """
        words = len(self._words)
        text = plan.translation or plan.output.text
        length = max(self._length(text), self._length(self._reference))
        emitted = len(plan.output.units)
        if not self._spaced:
            emitted = len(plan.output.text)
        per_unit = words / max(length, 1)
        heard_later: list[int] = []
        for place in range(emitted, length):
            # The rest is spread evenly, but comes with the next update at the earliest.
            even = round(place * per_unit)
            heard_later.append(min(words, max(heard + self._step, even)))
        heard_so_far = plan.output.heard_in(self._spaced)
        return Output((text,), (*heard_so_far, *heard_later))

    def _length(self, text: str) -> int:
        """Return the number of words of a text (characters in an unspaced script)."""
        if self._spaced:
            return len(text.split())
        return len(text)

    def _worth(self, output: Output, price: float) -> float:
        """Return the sentence BLEU of an output minus the price of its lag."""
        score = self._scores.get(output.text)
        if score is None:
            bleu = sentence_bleu(output.text, [self._reference], tokenize=self._tokenizer)
            score = bleu.score
            self._scores[output.text] = score
        return score - price * self._lag(output)

    def _lag(self, output: Output) -> float:
        """Return the mean lag of an output, which may be a guess."""
        if len(output.units) == len(output.heard):
            return output.lag(len(self._words), self._reference, self._spaced)
        # The single unit of a guess stands for as many units as there are numbers of heard words.
        count = max(len(output.heard), 1)
        per_unit = len(self._words) / count
        lags = [heard - place * per_unit for place, heard in enumerate(output.heard)]
        return sum(lags) / count
