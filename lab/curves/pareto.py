"""Pareto fronts of quality and latency with bootstrap bands, and comparisons at equal latency."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from alignatt_agent.evaluation.statistics import Array, Estimate, interval

LATENCIES = {"cu_ms": "LongYAAL-CU", "ca_ms": "LongYAAL-CA"}
QUALITIES = {"bleu": "BLEU", "chrf": "chrF"}
NOT_COMPARABLE = "not comparable"
RESAMPLES = 1000
BLOCK = 5
"""Number of adjacent segments that are resampled together, as they share words and errors."""
_SEED = 2026


@dataclass(frozen=True, slots=True)
class SegmentScores:
    """Scores of a run as sums over its segments, so that resamples of segments cost nothing."""

    bleu: Array  # [segments, 10], sacreBLEU's statistics
    chrf: Array  # [segments, 18], those of chrF2
    cu_ms: Array  # [segments], LongYAAL; NaN where it is not defined
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
        """Collect the statistics of segments; ``None`` is a latency that is not defined."""
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
        """Return all scores of resamples, ``weights[resamples, segments]`` times each segment."""
        return {
            "bleu": _scores(BLEU(), weights @ self.bleu),
            "chrf": _scores(CHRF(), weights @ self.chrf),
            "cu_ms": _mean(self.cu_ms, weights),
            "ca_ms": _mean(self.ca_ms, weights),
        }


def _scores(metric: BLEU | CHRF, sums: Array) -> Array:
    return np.asarray([metric._compute_score_from_stats(row).score for row in sums.tolist()])


def _mean(values: Array, weights: Array) -> Array:
    """Mean of the defined values of every resample; NaN if none is defined."""
    known = np.isfinite(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(
            (weights @ np.where(known, values, 0.0)) / (weights @ known.astype(np.float64))
        )


def front(latency: Array, quality: Array) -> npt.NDArray[np.intp]:
    """Return the points that no other point dominates, by rising latency.

    A point is dominated by one that is at least as fast and at least as good, and better in one of
    the two; of equal points the first stays. Points with NaN are ignored.
    """
    known = np.flatnonzero(np.isfinite(latency) & np.isfinite(quality))
    order = known[np.lexsort((-quality[known], latency[known]))]
    best = np.maximum.accumulate(quality[order])
    return np.asarray(order[np.diff(best, prepend=-np.inf) > 0])


def at_latency(latency: Array, quality: Array, wanted: npt.ArrayLike) -> Array:
    """Return the quality on the front at the ``wanted`` latencies.

    Linear between neighbors on the front, and its best quality up to the slowest point; NaN before
    the fastest and after the slowest, where no run was measured.
    """
    places = front(latency, quality)
    if not len(places):
        return np.full(np.shape(wanted), np.nan)
    read = np.interp(wanted, latency[places], quality[places], left=np.nan)
    return np.where(np.asarray(wanted) <= np.nanmax(latency), read, np.nan)


class Resampled:
    """Scores of runs, over all segments and on resamples of them that all runs share."""

    def __init__(self, runs: Mapping[str, SegmentScores]) -> None:
        (count,) = {len(scores.bleu) for scores in runs.values()}
        block = np.arange(count) // BLOCK
        blocks = -(-count // BLOCK)
        drawn = np.random.default_rng(_SEED).multinomial(
            blocks, np.full(blocks, 1 / blocks), size=RESAMPLES
        )
        # The first row is the set itself, not a resample.
        weights = np.concatenate([np.ones((1, count)), drawn[:, block]]).astype(np.float64)
        self._scores = {name: scores.resampled(weights) for name, scores in runs.items()}

    def value(self, run: str, score: str) -> float:
        """Return a score over all segments."""
        return float(self._scores[run][score][0])

    def interval(self, run: str, score: str) -> Estimate:
        """Return a score with its interval."""
        scores = self._scores[run][score]
        return interval(scores[0], scores[1:])

    def values(self, runs: Sequence[str], score: str) -> Array:
        """Return a score of several runs over all segments, ``[runs]``."""
        return np.array([self.value(run, score) for run in runs])

    def front_at(
        self, runs: Sequence[str], latency: str, quality: str, wanted: Array | str
    ) -> Array:
        """Read the front of ``runs`` in every resample; the first one has all segments.

        ``wanted`` are latencies, ``[places]``, or the run whose latency in each resample counts.
        """
        x = np.stack([self._scores[run][latency] for run in runs], axis=1)
        y = np.stack([self._scores[run][quality] for run in runs], axis=1)
        places = self._scores[wanted][latency] if isinstance(wanted, str) else [wanted] * len(x)
        return np.stack([at_latency(*row) for row in zip(x, y, places, strict=True)])

    def difference(self, run: str, other: str, score: str) -> Estimate:
        """Return the score of ``run`` minus that of ``other``."""
        found = self._scores[run][score] - self._scores[other][score]
        return interval(found[0], found[1:])

    def margin(self, run: str, rivals: Sequence[str], latency: str, quality: str) -> Estimate:
        """Return the quality of ``run`` minus that of the front of ``rivals`` at equal latency.

        NaN unless the rivals have points on both sides of it; such resamples are ignored.
        """
        ahead = self._scores[run][quality] - self.front_at(rivals, latency, quality, run)
        return interval(ahead[0], ahead[1:])


def compare(
    target: str, scores: Resampled, point: str, run: str, curves: Mapping[str, Sequence[str]]
) -> Iterator[dict[str, Any]]:
    """Compare an operating point with every rival, in both qualities at both latencies.

    A rival without points on both sides is not comparable and has no numbers.
    """
    for (curve, rivals), latency, quality in product(curves.items(), LATENCIES, QUALITIES):
        margin = scores.margin(run, rivals, latency, quality)
        none = math.isnan(margin.value)
        yield {
            "target": target,
            "point": point,
            "rival": curve,
            "latency": latency,
            "quality": quality,
            "latency_ms": scores.value(run, latency),
            "ours": scores.value(run, quality),
            "margin": dict.fromkeys(margin.as_json()) if none else margin.as_json(),
            "dominates": NOT_COMPARABLE if none else "yes" if margin.value > 0 else "no",
        }
