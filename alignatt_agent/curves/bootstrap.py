"""Paired bootstrap over segments: every run is scored on the same resamples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from alignatt_agent.curves.pareto import at_latency
from alignatt_agent.evaluation.statistics import Estimate, SegmentScores
from alignatt_agent.evaluation.statistics import interval as percentile_interval

Array = npt.NDArray[np.float64]

RESAMPLES = 1000
_SEED = 2026


class Resampled:
    """Scores of runs, over all segments and on resamples of them.

    Args:
        runs: segment scores by name; all of the same segments.
        resamples: number of resamples.

    Raises:
        ValueError: runs differ in their number of segments.
    """

    def __init__(self, runs: Mapping[str, SegmentScores], resamples: int = RESAMPLES) -> None:
        sizes = {len(scores.bleu) for scores in runs.values()}
        if len(sizes) != 1:
            raise ValueError(f"runs to compare must have the same segments, got {sorted(sizes)}")
        count = sizes.pop()
        drawn = np.random.default_rng(_SEED).multinomial(
            count, np.full(count, 1 / count), size=resamples
        )
        # The first row is no resample but the set itself.
        weights = np.concatenate([np.ones((1, count)), drawn]).astype(np.float64)
        self._scores = {name: scores.resampled(weights) for name, scores in runs.items()}

    def value(self, run: str, score: str) -> float:
        """Return a score over all segments."""
        return float(self._scores[run][score][0])

    def interval(self, run: str, score: str) -> Estimate:
        """Return a score with its interval."""
        return interval(self._scores[run][score])

    def front_at(
        self, runs: Sequence[str], latency: str, quality: str, wanted: Array | str
    ) -> Array:
        """Read the front of ``runs`` off at given latencies, in every resample.

        Args:
            runs: names of the runs of one policy.
            latency: ``"cu_ms"`` or ``"ca_ms"``.
            quality: ``"bleu"`` or ``"chrf"``.
            wanted: latencies, ``[places]``, or the run whose latency in the same resample counts.

        Returns:
            ``[1 + resamples]`` or ``[1 + resamples, places]``; first all segments.
        """
        x = np.stack([self._scores[run][latency] for run in runs], axis=1)
        y = np.stack([self._scores[run][quality] for run in runs], axis=1)
        places = self._scores[wanted][latency] if isinstance(wanted, str) else [wanted] * len(x)
        return np.stack([at_latency(*row) for row in zip(x, y, places, strict=True)])

    def margin(self, run: str, rivals: Sequence[str], latency: str, quality: str) -> Estimate:
        """Return how much better ``run`` is than the front of ``rivals`` at its own latency.

        NaN where no rival is that fast; resamples in which none is are left out.
        """
        rival = self.front_at(rivals, latency, quality, run)
        return interval(self._scores[run][quality] - rival)


def interval(values: Array) -> Estimate:
    """Return the first value with the percentile interval of the others."""
    return percentile_interval(values[0], values[1:])
