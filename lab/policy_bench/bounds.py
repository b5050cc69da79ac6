"""Bounds on every policy: a search for the plan of emissions that scores best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sacrebleu import sentence_bleu

from alignatt_agent.policy import Policy
from alignatt_agent.types import NO_CONTEXT, Decision, Draft, DraftContext, SourceView, StopReason
from lab.policy_bench.replay import Direction, Output, timed

PRICES = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Points of sentence BLEU that one word of lag may cost; each price keeps its own best plans."""
WIDTH = 2
"""Number of plans that each price keeps after each word."""


class Take(Policy):
    """Accepts a number of units and notes how many units the draft has.

    Attributes:
        units: number of units to accept.
        seen: receives the number of units.
    """

    name: Literal["take"] = "take"
    units: int = 0
    seen: Any = None

    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Accept the first units of ``draft``."""
        ends = (0, *context.unit_ends())
        self.seen["units"] = len(ends) - 1
        self.seen["draft"] = draft.token_ids
        return Decision(ends[min(self.units, len(ends) - 1)], StopReason.HELD_BACK)


@dataclass(frozen=True, slots=True)
class Plan:
    """A sequence of emissions so far, with the translator's state after it."""

    output: Output
    state: Any
    rest: str  # text of the draft after the accepted tokens


class Search:
    """Searches the plans of one sentence with a beam; the result is a lower limit of the bound.

    The reference decides what is emitted, so no policy can be expected to reach the bound.
    """

    def __init__(
        self, direction: Direction, source: str, reference: str, tokenizer: str, step: int
    ) -> None:
        self._direction, self._reference, self._tokenizer = direction, reference, tokenizer
        self._words, self._step = timed(source.split()), step
        self._seen: dict[str, Any] = {}
        self._translators: dict[int, Any] = {}
        self._scores: dict[str, float] = {}

    def best(self) -> dict[float, Output]:
        """Return the best plan for each price of a word of lag."""
        start = self._translator(0)._state
        plans = [Plan(Output(), start, "")]
        for heard in range(self._step, len(self._words), self._step):
            after = [plan for before in plans for plan in self._continued(before, heard)]
            plans = self._pruned(after, heard)
        finished = [self._finished(plan) for plan in plans]
        return {price: max(finished, key=lambda x: self._worth(x, price)) for price in PRICES}

    def _translator(self, units: int) -> Any:
        if units not in self._translators:
            policy = Take(units=units, seen=self._seen)
            self._translators[units] = self._direction.translator(policy)
        return self._translators[units]

    def _continued(self, plan: Plan, heard: int) -> Iterator[Plan]:
        """Yield the plan with every number of units of the next draft."""
        view, units, most = SourceView(self._words[:heard], heard), 0, 0
        emitted = -1
        while units <= most:
            translator = self._translator(units)
            # The states of a translator are immutable, so every branch can start from one.
            translator._state = plan.state
            emission = translator.update(view)
            most = self._seen["units"]
            if len(emission.units) > emitted:
                emitted = len(emission.units)
                output = plan.output.adding(emission.units, heard)
                rest = (*plan.state.utterance.accepted, *self._seen["draft"])
                yield Plan(output, translator._state, self._direction.text(rest))
            units += 1

    def _finished(self, plan: Plan) -> Output:
        translator = self._translator(0)
        translator._state = plan.state
        return plan.output.adding(translator.complete(self._words).units, len(self._words))

    def _pruned(self, plans: Sequence[Plan], heard: int) -> list[Plan]:
        distinct: dict[tuple[int, ...], Plan] = {}
        for plan in plans:
            accepted = plan.state.utterance.accepted
            known = distinct.get(accepted)
            if known is None or sum(plan.output.heard) < sum(known.output.heard):
                distinct[accepted] = plan
        chosen: dict[int, Plan] = {}
        for price in PRICES:
            # The rest of the draft is the guess at the rest of the translation.
            ranked = sorted(
                distinct.values(), key=lambda plan: -self._worth(self._guess(plan, heard), price)
            )
            chosen |= {id(plan): plan for plan in ranked[:WIDTH]}
        return list(chosen.values())

    def _guess(self, plan: Plan, heard: int) -> Output:
        """Return the plan's output as if the rest of its draft came with the next words."""
        whole = plan.rest or plan.output.text
        spaced = self._direction.target.spaced
        wanted = len(self._reference.split()) if spaced else len(self._reference)
        pieces = whole.split() if spaced else list(whole)
        done = len(plan.output.units) if spaced else len(plan.output.text)
        per_unit = len(self._words) / max(wanted, len(pieces), 1)
        later = [
            min(len(self._words), max(heard + self._step, round(place * per_unit)))
            for place in range(done, max(len(pieces), wanted))
        ]
        sizes = [1 if spaced else len(unit.strip()) for unit in plan.output.units]
        early = [k for k, n in zip(plan.output.heard, sizes, strict=True) for _ in range(n)]
        return Output((whole,), (*early, *later))

    def _worth(self, output: Output, price: float) -> float:
        score = self._scores.get(output.text)
        if score is None:
            found = sentence_bleu(output.text, [self._reference], tokenize=self._tokenizer)
            score = self._scores[output.text] = found.score
        return score - price * self._lag(output)

    def _lag(self, output: Output) -> float:
        if len(output.units) == len(output.heard):
            return output.lag(len(self._words), self._reference, self._direction.target.spaced)
        per_unit = len(self._words) / max(len(output.heard), 1)
        places = enumerate(output.heard)
        return sum(k - place * per_unit for place, k in places) / max(len(output.heard), 1)
