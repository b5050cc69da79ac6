"""Intervals: bootstraps over sentences and segments, and paired spreads of timings.

Everything that is compared is paired: the same resamples for all runs, the same round for both
timings.
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

_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""97.5 % points of Student's t with 1, 2, ... degrees of freedom."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its interval at ``LEVEL`` %."""

    value: float
    low: float
    high: float

    def as_json(self) -> dict[str, float]:
        """Rounded, for files."""
        return {name: round(figure, 4) for name, figure in asdict(self).items()}

    def __str__(self) -> str:
        return f"{self.value:+.1f} ({self.low:+.1f} to {self.high:+.1f})"


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
    """Draw ``[RESAMPLES, count]`` pair numbers with replacement; the same ones every time.

    Statistics that are compared share their resamples, so intervals of differences are paired.
    """
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


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and quartiles of ``count`` figures."""

    median: float
    q1: float
    q3: float
    count: int

    def __str__(self) -> str:
        return f"{self.median:.3g} ({self.q1:.3g}-{self.q3:.3g})"


def spread(figures: Sequence[float]) -> Spread:
    """Summarise figures.

    Raises:
        ValueError: there are none, or one is not finite.
    """
    values = np.asarray(figures, dtype=np.float64)
    if not values.size or not np.isfinite(values).all():
        raise ValueError(f"expected finite figures, got {list(figures)!r}")
    q1, median, q3 = np.percentile(values, [25, 50, 75])
    return Spread(float(median), float(q1), float(q3), len(values))


def paired_ratio(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Summarise ``ours / theirs``, pair by pair: what disturbs both of a pair cancels out.

    Raises:
        ValueError: the numbers of figures differ.
    """
    return spread([a / b for a, b in zip(ours, theirs, strict=True)])


def over_starts(ratios: Sequence[float]) -> Estimate:
    """Estimate a ratio, as a difference in percent, from one of each independent start.

    The geometric mean with Student's t interval.

    Raises:
        ValueError: there are fewer than 2 ratios or more than 10.
    """
    count = len(ratios)
    if not 2 <= count <= len(_T) + 1:
        raise ValueError(f"expected 2 to {len(_T) + 1} starts, got {count}")
    logs = np.log(ratios)
    mean, half = logs.mean(), _T[count - 2] * logs.std(ddof=1) / math.sqrt(count)
    percent, low, high = (100 * math.expm1(x) for x in (mean, mean - half, mean + half))
    return Estimate(percent, low, high)
