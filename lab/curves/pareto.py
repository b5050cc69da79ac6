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
        bleu = BLEU(tokenize=tokenizer)._extract_corpus_statistics(predictions, [references])
        chrf = CHRF()._extract_corpus_statistics(predictions, [references])
        return cls(
            bleu=np.asarray(bleu, np.float64),
            chrf=np.asarray(chrf, np.float64),
            # ``None`` becomes NaN.
            cu_ms=np.asarray(cu_ms, np.float64),
            ca_ms=np.asarray(ca_ms, np.float64),
        )

    def sentence_bleu(self) -> Array:
        """Return the sentence BLEU of each segment, ``[segments]``."""
        return _scores(BLEU(effective_order=True), self.bleu)

    def corpus(self) -> dict[str, float]:
        """Return the scores over all segments."""
        ones = np.ones((1, len(self.bleu)))
        return {score: float(values[0]) for score, values in self.resampled(ones).items()}

    def resampled(self, weights: Array) -> dict[str, Array]:
        """Return all scores of resamples, each ``[resamples]``.

        ``weights``, ``[resamples, segments]``, says how often a resample contains each segment.
        """
        return {
            "bleu": _scores(BLEU(), weights @ self.bleu),
            "chrf": _scores(CHRF(), weights @ self.chrf),
            "cu_ms": _mean(self.cu_ms, weights),
            "ca_ms": _mean(self.ca_ms, weights),
        }


def best_in_hindsight(runs: Sequence[SegmentScores], price: float) -> SegmentScores:
    """Choose the best run for each segment: a policy that knows the reference could.

    The best run has the highest sentence BLEU minus ``price`` for each second of LongYAAL-CU. The
    choice also profits from chance, so no policy can be expected to come close.
    """
    worths: list[Array] = []
    for scores in runs:
        worth = scores.sentence_bleu() - price * scores.cu_ms / 1000
        # A segment without output has no latency.
        worths.append(np.where(np.isfinite(worth), worth, -np.inf))
    best = np.argmax(worths, axis=0)
    segments = np.arange(len(best))

    def chosen(arrays: Sequence[Array]) -> Array:
        return np.stack(arrays)[best, segments]

    return SegmentScores(
        bleu=chosen([scores.bleu for scores in runs]),
        chrf=chosen([scores.chrf for scores in runs]),
        cu_ms=chosen([scores.cu_ms for scores in runs]),
        ca_ms=chosen([scores.ca_ms for scores in runs]),
    )


def _scores(metric: BLEU | CHRF, sums: Array) -> Array:
    """Return the score of every row of summed statistics."""
    return np.asarray([metric._compute_score_from_stats(row).score for row in sums.tolist()])


def _mean(values: Array, weights: Array) -> Array:
    """Mean of the defined values of every resample; NaN if none is defined."""
    defined = np.isfinite(values)
    totals = weights @ np.where(defined, values, 0.0)
    counts = weights @ defined.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(totals / counts)


def front(latency: Array, quality: Array) -> npt.NDArray[np.intp]:
    """Return the points that no other point dominates, by rising latency.

    A point is dominated by one that is at least as fast and at least as good, and better in one of
    the two; of equal points the first stays. Points with NaN are ignored.
    """
    defined = np.flatnonzero(np.isfinite(latency) & np.isfinite(quality))
    # Of equally fast points, the best one comes first.
    order = defined[np.lexsort((-quality[defined], latency[defined]))]
    # A point is on the front if it is better than all faster points.
    best_so_far = np.maximum.accumulate(quality[order])
    improves = np.diff(best_so_far, prepend=-np.inf) > 0
    return np.asarray(order[improves])


def at_latency(latency: Array, quality: Array, places: npt.ArrayLike) -> Array:
    """Return the quality on the front at the latencies ``places``.

    Linear between neighbors on the front, and its best quality up to the slowest point; NaN before
    the fastest and after the slowest, where no run was measured.
    """
    best = front(latency, quality)
    if not len(best):
        return np.full(np.shape(places), np.nan)
    # To the right of the front, ``interp`` repeats the last quality.
    on_front = np.interp(places, latency[best], quality[best], left=np.nan)
    return np.where(np.asarray(places) <= np.nanmax(latency), on_front, np.nan)


def resampling(count: int) -> Array:
    """Return how often each of ``count`` segments is drawn, ``[1 + RESAMPLES, count]``.

    The first row is the set itself, not a resample.
    """
    block_of_segment = np.arange(count) // BLOCK
    blocks = math.ceil(count / BLOCK)
    # A resample draws as many blocks as there are, each with the same probability.
    drawn = np.random.default_rng(_SEED).multinomial(
        blocks, np.full(blocks, 1 / blocks), size=RESAMPLES
    )
    weights = np.concatenate([np.ones((1, count)), drawn[:, block_of_segment]])
    return weights.astype(np.float64)


class Resampled:
    """Scores of runs, over all segments and on resamples of them that all runs share."""

    def __init__(self, runs: Mapping[str, SegmentScores]) -> None:
        # Fails unless all runs have the same number of segments.
        (count,) = {len(scores.bleu) for scores in runs.values()}
        weights = resampling(count)
        self._scores: dict[str, dict[str, Array]] = {}
        for name, scores in runs.items():
            self._scores[name] = scores.resampled(weights)

    def value(self, run: str, score: str) -> float:
        """Return a score over all segments."""
        return float(self._scores[run][score][0])

    def interval(self, run: str, score: str) -> Estimate:
        """Return a score with its interval."""
        return estimate(self._scores[run][score])

    def values(self, runs: Sequence[str], score: str) -> Array:
        """Return a score of several runs over all segments, ``[runs]``."""
        return np.array([self.value(run, score) for run in runs])

    def front_at(self, runs: Sequence[str], latency: str, quality: str, places: Array) -> Array:
        """Read the front of ``runs`` in every resample; the first one has all segments.

        ``places`` are latencies, ``[places]``. Returns ``[resamples, places]``.
        """
        return self._fronts(runs, latency, quality, [places] * (1 + RESAMPLES))

    def _fronts(
        self, runs: Sequence[str], latency: str, quality: str, places: Sequence[Array] | Array
    ) -> Array:
        """Read the front of ``runs`` in every resample, at the latencies ``places[resample]``."""
        resamples = zip(
            self._stacked(runs, latency), self._stacked(runs, quality), places, strict=True
        )
        return np.stack([at_latency(*resample) for resample in resamples])

    def _stacked(self, runs: Sequence[str], score: str) -> Array:
        """Return a score of several runs in every resample, ``[resamples, runs]``."""
        return np.stack([self._scores[run][score] for run in runs], axis=1)

    def difference(self, run: str, baseline: str, score: str) -> Estimate:
        """Return the score of ``run`` minus that of ``baseline``."""
        return estimate(self.differences(run, baseline, score))

    def differences(self, run: str, baseline: str, score: str) -> Array:
        """Return the ``difference`` in every resample, ``[resamples]``."""
        return self._scores[run][score] - self._scores[baseline][score]

    def margin(self, run: str, rivals: Sequence[str], latency: str, quality: str) -> Estimate:
        """Return the quality of ``run`` minus that of the front of ``rivals`` at equal latency.

        NaN unless the rivals have points on both sides of it; such resamples are ignored.
        """
        return estimate(self.margins(run, rivals, latency, quality))

    def margins(self, run: str, rivals: Sequence[str], latency: str, quality: str) -> Array:
        """Return the ``margin`` in every resample, ``[resamples]``."""
        # The latency of the run differs between resamples, too.
        places = self._scores[run][latency]
        return self._scores[run][quality] - self._fronts(rivals, latency, quality, places)


def compare(
    target: str, scores: Resampled, point: str, run: str, curves: Mapping[str, Sequence[str]]
) -> Iterator[dict[str, Any]]:
    """Compare an operating point with every rival, in both qualities at both latencies.

    A rival without points on both sides is not comparable and has no numbers.
    """
    for (curve, rivals), latency, quality in product(curves.items(), LATENCIES, QUALITIES):
        margin = scores.margin(run, rivals, latency, quality)
        yield {
            "target": target,
            **_comparison(point, curve, latency, quality, margin),
            "latency_ms": scores.value(run, latency),
            "ours": scores.value(run, quality),
        }


def compare_means(
    targets: Sequence[Resampled], point: str, run: str, curve: str, rivals: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Compare an operating point with the rivals on a curve, on the average of all targets.

    The targets translate the same segments, so each resample contains the same segments of all
    targets. Not comparable if one target is not.
    """
    for latency, quality in product(LATENCIES, QUALITIES):
        margins = [scores.margins(run, rivals, latency, quality) for scores in targets]
        yield _comparison(point, curve, latency, quality, mean_estimate(margins))


def estimate(values: Array) -> Estimate:
    """Return the first of ``values``, ``[1 + RESAMPLES]``, with the interval of the resamples."""
    return interval(values[0], values[1:])


def mean_estimate(values: Sequence[Array]) -> Estimate:
    """Return the ``estimate`` of the mean of several targets."""
    return estimate(np.mean(values, axis=0))


def _comparison(
    point: str, curve: str, latency: str, quality: str, margin: Estimate
) -> dict[str, Any]:
    return {
        "point": point,
        "rival": curve,
        "latency": latency,
        "quality": quality,
        "margin": estimate_json(margin),
        "dominates": _verdict(margin),
    }


def estimate_json(estimated: Estimate) -> dict[str, Any]:
    """Return an estimate for files; JSON has no NaN."""
    figures = estimated.as_json()
    if math.isnan(estimated.value):
        return dict.fromkeys(figures)
    return figures


def _verdict(margin: Estimate) -> str:
    if math.isnan(margin.value):
        return NOT_COMPARABLE
    return "yes" if margin.value > 0 else "no"
