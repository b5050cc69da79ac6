"""Classifiers that combine all signals of a token into the probability that it is correct."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import LeaveOneGroupOut, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from alignatt_agent.evaluation.statistics import Array
from lab.signals.records import Sentence, Step
from lab.signals.simulation import BoolArray, Rule

CLASSIFIERS: Mapping[str, Callable[[], Any]] = {
    "logistic regression": lambda: make_pipeline(StandardScaler(), LogisticRegression()),
    # Small trees, because there are only some thousand tokens.
    "boosted trees": lambda: HistGradientBoostingClassifier(
        max_depth=4, max_iter=100, learning_rate=0.06, random_state=0
    ),
}

THRESHOLDS = (0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.825, 0.85, 0.875, 0.9, 0.93, 0.95)
"""Minimum probabilities of a token; each is a point of a classifier's front."""


def predicted(talks: Sequence[Sequence[Sentence]], classifier: Any) -> dict[int, Array]:
    """Return the probability of each token of each step, by the ``id`` of the step.

    A talk is predicted by a classifier that was fitted to all other talks.
    """
    steps: list[Step] = []
    groups: list[int] = []
    for number, sentences in enumerate(talks):
        for sentence in sentences:
            for step in sentence.steps:
                steps.append(step)
                groups += [number] * len(step.signals)
    labels: list[bool] = []
    for step in steps:
        # Only the last token of a step may be wrong.
        labels += [place < step.correct for place in range(len(step.signals))]
    signals = np.concatenate([step.signals for step in steps])
    probabilities = cross_val_predict(
        classifier,
        signals,
        np.array(labels),
        groups=groups,
        cv=LeaveOneGroupOut(),
        method="predict_proba",
    )[:, 1]
    ends = np.cumsum([len(step.signals) for step in steps])
    parts = np.split(probabilities, ends[:-1])
    return {id(step): part for step, part in zip(steps, parts, strict=True)}


def at_least(probabilities: Mapping[int, Array], threshold: float) -> Rule:
    """Return the rule that each token has a minimum probability of being correct."""

    def passes(step: Step) -> BoolArray:
        return np.asarray(probabilities[id(step)] >= threshold)

    return passes
