"""Pareto fronts of quality against latency, resampled, and who is ahead at equal latency."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from tabulate import tabulate

from alignatt_agent.evaluation.statistics import Array, Estimate, interval
from lab.curves.segment_scores import SegmentScores

LATENCIES = {"cu_ms": "LongYAAL-CU", "ca_ms": "LongYAAL-CA"}
QUALITIES = {"bleu": "BLEU", "chrf": "chrF"}
RESAMPLES = 1000
BLOCK = 5
"""Neighbouring segments that a resample holds together: they share words, tails and errors."""
_SEED = 2026


def front(latency: Array, quality: Array) -> npt.NDArray[np.intp]:
    """Return the points that no other point beats, by rising latency.

    A point is beaten by one that is at least as fast and at least as good, and better in one of
    the two; of equal points the first stays. Points that are not numbers never count.
    """
    known = np.flatnonzero(np.isfinite(latency) & np.isfinite(quality))
    order = known[np.lexsort((-quality[known], latency[known]))]
    best = np.maximum.accumulate(quality[order])
    return np.asarray(order[np.diff(best, prepend=-np.inf) > 0])


def at_latency(latency: Array, quality: Array, wanted: npt.ArrayLike) -> Array:
    """Return the quality on the front at the ``wanted`` latencies.

    Linear between neighbours on the front; the best quality beyond its slowest point, since one
    can always wait longer; NaN before its fastest point, which no run reaches.
    """
    places = front(latency, quality)
    if not len(places):
        return np.full(np.shape(wanted), np.nan)
    return np.asarray(
        np.interp(np.asarray(wanted, np.float64), latency[places], quality[places], left=np.nan)
    )


class Resampled:
    """Scores of runs, over all segments and on resamples of them that all runs share."""

    def __init__(self, runs: Mapping[str, SegmentScores], resamples: int = RESAMPLES) -> None:
        sizes = {len(scores.bleu) for scores in runs.values()}
        if len(sizes) != 1:
            raise ValueError(f"runs to compare must have the same segments, got {sorted(sizes)}")
        count = sizes.pop()
        block = np.arange(count) // BLOCK
        blocks = -(-count // BLOCK)
        drawn = np.random.default_rng(_SEED).multinomial(
            blocks, np.full(blocks, 1 / blocks), size=resamples
        )
        # The first row is no resample but the set itself.
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

    def front(self, runs: Sequence[str], latency: str, quality: str) -> list[str]:
        """Return the runs that are on the front of ``runs``, by rising latency."""
        places = front(self.values(runs, latency), self.values(runs, quality))
        return [runs[place] for place in places]

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
        ahead = self._scores[run][quality] - self.front_at(rivals, latency, quality, run)
        return interval(ahead[0], ahead[1:])


@dataclass(frozen=True, slots=True)
class Comparison:
    """An operating point against the front of one rival; no number where it is never that fast."""

    target: str
    point: str
    rival: str
    latency: str
    quality: str
    latency_ms: float
    ours: float
    theirs: float
    margin: Estimate

    @property
    def dominates(self) -> bool:
        """Whether the operating point is better, or the rival is never that fast."""
        return math.isnan(self.margin.value) or self.margin.value > 0

    @property
    def certain(self) -> bool:
        """Whether the whole interval is on our side."""
        return math.isnan(self.margin.value) or self.margin.low > 0

    def as_json(self) -> dict[str, Any]:
        """Plain values; a rival that is never that fast has none."""
        margin = {key: _number(value) for key, value in asdict(self.margin).items()}
        return asdict(self) | {
            "margin": margin,
            "theirs": _number(self.theirs),
            "dominates": "yes" if self.dominates else "no",
            "interval_above_zero": self.certain,
        }


def compare(
    target: str, scores: Resampled, point: str, run: str, curves: Mapping[str, Sequence[str]]
) -> list[Comparison]:
    """Compare an operating point with every rival, in both qualities at both latencies."""
    found = []
    for (curve, rivals), latency, quality in product(curves.items(), LATENCIES, QUALITIES):
        margin = scores.margin(run, rivals, latency, quality)
        ours, latency_ms = scores.value(run, quality), scores.value(run, latency)
        theirs = ours - margin.value
        found.append(
            Comparison(target, point, curve, latency, quality, latency_ms, ours, theirs, margin)
        )
    return found


def dominance_table(comparisons: Sequence[Comparison]) -> str:
    """Format the comparisons of BLEU at equal LongYAAL-CU."""
    rows = [
        [
            item.target,
            item.point,
            f"{item.latency_ms / 1000:.2f}",
            f"{item.ours:.2f}",
            item.rival,
            *_against(item),
        ]
        for item in comparisons
        if (item.latency, item.quality) == ("cu_ms", "bleu")
    ]
    headers = "target,point,CU s,BLEU,rival,BLEU,margin,interval,dominates"
    table = tabulate(
        rows,
        headers=headers.split(","),
        colalign=("left", "left", "right", "right", "left", "right", "right", "left", "left"),
        disable_numparse=True,
    )
    return (
        "BLEU of the maintained operating points against each rival's front at the same "
        f"LongYAAL-CU (95 % paired bootstrap over blocks of {BLOCK} segments)\n{table}"
    )


def _against(item: Comparison) -> tuple[str, str, str, str]:
    if math.isnan(item.theirs):
        return "", "", "never that fast", "yes"
    verdict = "yes" if item.certain else "yes, interval holds 0" if item.dominates else "no"
    margin = item.margin
    return (
        f"{item.theirs:.2f}",
        f"{margin.value:+.2f}",
        f"[{margin.low:+.1f}, {margin.high:+.1f}]",
        verdict,
    )


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 4)
