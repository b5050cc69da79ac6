"""Simulate faster policies on the recorded drafts of a slow one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alignatt_agent.evaluation.statistics import Array
from lab.curves.pareto import at_latency
from lab.signals.records import SLOWEST, Sentence, Step

BoolArray = npt.NDArray[np.bool_]

Rule = Callable[[Step], BoolArray]
"""Returns for each token of a draft whether the rule would accept it after the tokens before it."""


def agreement(drafts: int) -> Rule:
    """Return the rule that ``drafts`` successive drafts agree."""
    return lambda step: step.agreeing >= drafts


def gate(margin: int) -> Rule:
    """Return the rule of the gate (Eq. 5) with a border margin."""
    return lambda step: step.distances > -margin


def both(first: Rule, second: Rule) -> Rule:
    """Return the rule that two rules must accept a token."""
    return lambda step: first(step) & second(step)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The decisions of a rule.

    Attributes:
        wrong: number of decisions for a wrong token in each sentence, ``[sentences]``.
        waits: sum of the chunks for which tokens were held back, ``[sentences]``.
        tokens: number of tokens of the off-line translation, ``[sentences]``.
    """

    wrong: Array
    waits: Array
    tokens: Array

    def points(self, weights: Array) -> tuple[Array, Array]:
        """Return waits per token and wrong decisions per sentence, each ``[resamples]``.

        ``weights`` says how often each sentence is drawn, ``[resamples, sentences]``.
        """
        waits = weights @ self.waits / (weights @ self.tokens)
        wrong = weights @ self.wrong / weights.sum(axis=1)
        return waits, wrong


def simulate(sentences: Sequence[Sentence], rule: Rule) -> Outcome:
    """Return what a rule does on the drafts of sentences.

    A draft contains those that a faster policy would have received, as long as that policy emitted
    nothing wrong: greedy decoding continues a part of a draft with its rest. A wrong token is
    therefore counted and then taken back, so that the next drafts can be used. Slower policies
    cannot be simulated, so every rule also accepts what ``SLOWEST`` drafts agree on.
    """
    results = [_of_sentence(sentence, rule) for sentence in sentences]
    wrong, waits = np.array(results, np.float64).reshape(-1, 2).T
    tokens = np.array([sentence.tokens for sentence in sentences], np.float64)
    return Outcome(wrong, waits, tokens)


def _of_sentence(sentence: Sentence, rule: Rule) -> tuple[int, int]:
    """Return the number of wrong decisions, and the sum of chunks for which tokens waited."""
    # The rest is emitted when the end of the sentence is known.
    drafted = np.full(sentence.tokens, sentence.end)
    emitted = np.full(sentence.tokens, sentence.end)
    first_missing = 0
    wrong = 0
    for step in sentence.steps:
        # The translation of a sentence may begin before its first draft.
        emitted[first_missing : step.accepted] = step.chunk
        first_missing = max(first_missing, step.accepted)
        known = step.accepted + step.correct
        drafted[:known] = np.minimum(drafted[:known], step.chunk)
        if known < first_missing:
            # This draft contradicts what the simulated policy has already emitted.
            continue
        passes = rule(step) | agreement(SLOWEST)(step)
        place = first_missing - step.accepted
        while place < len(passes) and passes[place]:
            if place == step.correct:
                wrong += 1
                break
            emitted[step.accepted + place] = step.chunk
            place += 1
        first_missing = step.accepted + min(place, step.correct)
    return wrong, int((emitted - drafted).sum())


def excess(outcome: Outcome, front: Sequence[Outcome], weights: Array) -> Array:
    """Return the wrong decisions of a front minus those of ``outcome``, at equal waits.

    The front is computed and interpolated in every resample; NaN where it has no points.
    """
    waits, wrong = outcome.points(weights)
    points = [other.points(weights) for other in front]
    front_waits = np.stack([point[0] for point in points], axis=1)
    front_wrong = np.stack([point[1] for point in points], axis=1)
    at_equal_waits: list[float] = []
    for wait, its_waits, its_wrong in zip(waits, front_waits, front_wrong, strict=True):
        # Fewer wrong decisions are a better quality.
        quality = at_latency(its_waits, -its_wrong, wait)
        at_equal_waits.append(-float(quality))
    return np.array(at_equal_waits) - wrong
