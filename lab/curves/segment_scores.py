"""Scores of a run by segment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from alignatt_agent.evaluation.statistics import Array


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
    """Mean of the defined values of every resample; NaN where none is."""
    known = np.isfinite(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(
            (weights @ np.where(known, values, 0.0)) / (weights @ known.astype(np.float64))
        )
