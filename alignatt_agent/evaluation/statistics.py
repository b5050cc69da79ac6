"""Bootstrap intervals, over sentence pairs and over the segments of a run.

Everything that is compared shares its resamples, so intervals of differences are paired.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

Array = npt.NDArray[np.float64]

RESAMPLES = 2000
"""Of sentence pairs, in a calibration."""

LEVEL = 95
"""Percent that an interval covers."""

_SEED = 20260


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its interval at ``LEVEL`` %."""

    value: float
    low: float
    high: float

    def as_json(self) -> dict[str, float]:
        """Rounded, for files."""
        return {name: round(figure, 4) for name, figure in asdict(self).items()}


def interval(value: float, drawn: Array) -> Estimate:
    """Return ``value`` with the percentile interval of its resamples.

    Resamples without a value, NaN, are left out; an estimate without a value has no interval.
    """
    drawn = drawn[np.isfinite(drawn)]
    if not np.isfinite(value) or not len(drawn):
        return Estimate(math.nan, math.nan, math.nan)
    tail = (100 - LEVEL) / 2
    low, high = np.percentile(drawn, [tail, 100 - tail])
    return Estimate(float(value), float(low), float(high))


def resamples(count: int) -> npt.NDArray[np.int64]:
    """Draw ``[RESAMPLES, count]`` pair numbers with replacement; the same ones every time."""
    return np.random.default_rng(_SEED).integers(0, count, (RESAMPLES, count))


def micro(hits: npt.ArrayLike, tokens: npt.ArrayLike) -> Estimate:
    """Share of all tokens that are hit.

    Args:
        hits: ``[pairs]``, hit tokens.
        tokens: ``[pairs]``, aligned tokens; none is 0.
    """
    hit, all_ = np.asarray(hits, np.float64), np.asarray(tokens, np.float64)
    drawn = resamples(len(hit))
    return interval(hit.sum() / all_.sum(), hit[drawn].sum(1) / all_[drawn].sum(1))


def macro(hits: npt.ArrayLike, tokens: npt.ArrayLike) -> Estimate:
    """Mean over pairs of the share of a pair's tokens that are hit."""
    shares = np.asarray(hits, np.float64) / np.asarray(tokens, np.float64)
    return interval(shares.mean(), shares[resamples(len(shares))].mean(1))


@dataclass(frozen=True, slots=True)
class SegmentScores:
    """Scores of a run as sums over its segments, so that resamples of segments cost nothing.

    Attributes:
        bleu: ``[segments, 10]``, sacreBLEU's statistics of each segment.
        chrf: ``[segments, 18]``, the same of chrF2.
        cu_ms: ``[segments]``, computation-unaware LongYAAL; NaN where it is not defined.
        ca_ms: ``[segments]``, computation-aware LongYAAL.
    """

    bleu: Array
    chrf: Array
    cu_ms: Array
    ca_ms: Array

    @classmethod
    def of(
        cls,
        predictions: Sequence[str],
        references: Sequence[str],
        cu_ms: Sequence[float | None],
        ca_ms: Sequence[float | None],
        tokenizer: str,
    ) -> SegmentScores:
        """Collect the statistics of segments; ``None`` is a latency that is not defined.

        Args:
            predictions: text of each segment.
            references: reference of each segment.
            cu_ms: computation-unaware LongYAAL of each segment.
            ca_ms: computation-aware LongYAAL of each segment.
            tokenizer: sacreBLEU's tokenizer for BLEU.
        """
        # No public function returns sacreBLEU's statistics by segment.
        found = [
            metric._extract_corpus_statistics(predictions, [references])
            for metric in (BLEU(tokenize=tokenizer), CHRF())
        ]
        return cls(*(np.asarray(part, np.float64) for part in (*found, cu_ms, ca_ms)))

    def corpus(self) -> dict[str, float]:
        """Return the scores over all segments."""
        ones = np.ones((1, len(self.bleu)))
        return {key: float(value[0]) for key, value in self.resampled(ones).items()}

    def resampled(self, weights: Array) -> dict[str, Array]:
        """Return ``bleu``, ``chrf``, ``cu_ms`` and ``ca_ms`` of every resample.

        Args:
            weights: ``[resamples, segments]``, how often each resample holds each segment.
        """
        return {
            "bleu": _scores(BLEU(), weights @ self.bleu),
            "chrf": _scores(CHRF(), weights @ self.chrf),
            "cu_ms": _mean(self.cu_ms, weights),
            "ca_ms": _mean(self.ca_ms, weights),
        }


def _scores(metric: BLEU | CHRF, sums: Array) -> Array:
    return np.asarray([metric._compute_score_from_stats(row).score for row in sums.tolist()])


def _mean(values: Array, weights: Array) -> Array:
    """Mean of the defined values of every resample; NaN where none is."""
    known = np.isfinite(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(
            (weights @ np.where(known, values, 0.0)) / (weights @ known.astype(np.float64))
        )
