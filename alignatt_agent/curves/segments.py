"""Scores of a run as sums over its segments, so that resamples of segments cost nothing.

``weights`` count how often a resample holds each segment, ``[..., segments]``; all scores are
arrays over the leading axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_BLEU_ORDER = 4
_CHRF_BETA2 = 4.0
_EPSILON = 1e-16


@dataclass(frozen=True, slots=True)
class SegmentScores:
    """What the scores of a run are made of.

    Attributes:
        bleu: ``[segments, 10]``: lengths of output and reference, matches and totals of 1-4-grams.
        chrf: ``[segments, 18]``: output, reference and matching n-grams of 1-6 characters.
        cu_ms: ``[segments]``, computation-unaware LongYAAL; NaN where it is not defined.
        ca_ms: ``[segments]``, computation-aware LongYAAL.
    """

    bleu: Array
    chrf: Array
    cu_ms: Array
    ca_ms: Array

    @classmethod
    def from_lists(
        cls,
        bleu: Sequence[Sequence[float]],
        chrf: Sequence[Sequence[float]],
        cu_ms: Sequence[float | None],
        ca_ms: Sequence[float | None],
    ) -> SegmentScores:
        """Build from JSON lists; ``None`` is a latency that is not defined."""
        return cls(
            np.asarray(bleu, np.float64),
            np.asarray(chrf, np.float64),
            np.asarray(cu_ms, np.float64),
            np.asarray(ca_ms, np.float64),
        )

    def corpus(self) -> dict[str, float]:
        """Return the scores over all segments."""
        return {key: float(value) for key, value in self.resampled(np.ones(len(self.bleu))).items()}

    def resampled(self, weights: Array) -> dict[str, Array]:
        """Return ``bleu``, ``chrf``, ``cu_ms`` and ``ca_ms`` of every resample."""
        return {
            "bleu": bleu(weights @ self.bleu),
            "chrf": chrf(weights @ self.chrf),
            "cu_ms": weighted_mean(self.cu_ms, weights),
            "ca_ms": weighted_mean(self.ca_ms, weights),
        }


def bleu(sums: Array) -> Array:
    """BLEU of summed statistics, ``[..., 10]``, with sacreBLEU's ``exp`` smoothing."""
    length, reference = sums[..., 0], sums[..., 1]
    correct = sums[..., 2 : 2 + _BLEU_ORDER]
    total = sums[..., 2 + _BLEU_ORDER : 2 + 2 * _BLEU_ORDER]
    # The k-th order without a match counts as 1 / 2**k matches.
    missed = 0.5 ** np.cumsum(correct == 0, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(correct > 0, correct, missed) / total
        mean = np.exp(np.log(precision).mean(axis=-1))
        brevity = np.where(length < reference, np.exp(1 - reference / length), 1.0)
        scored = correct.any(axis=-1) & (total > 0).all(axis=-1)
        return np.where(scored, 100 * brevity * mean, 0.0)


def chrf(sums: Array) -> Array:
    """chrF2 of summed statistics, ``[..., 18]``, over the orders that both sides have."""
    counts = sums.reshape(*sums.shape[:-1], -1, 3)
    output, reference, match = counts[..., 0], counts[..., 1], counts[..., 2]
    both = (output > 0) & (reference > 0)
    orders = np.maximum(both.sum(axis=-1), 1)
    precision = (np.where(both, match, 0) / np.maximum(output, 1)).sum(axis=-1) / orders
    recall = (np.where(both, match, 0) / np.maximum(reference, 1)).sum(axis=-1) / orders
    product = (1 + _CHRF_BETA2) * precision * recall
    return np.asarray(100 * product / np.maximum(_CHRF_BETA2 * precision + recall, _EPSILON))


def weighted_mean(values: Array, weights: Array) -> Array:
    """Mean of the defined values of every resample; NaN where none is."""
    known = np.isfinite(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(
            (weights @ np.where(known, values, 0.0)) / (weights @ known.astype(np.float64))
        )
