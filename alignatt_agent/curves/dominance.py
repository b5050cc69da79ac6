"""Whether the maintained gate beats its rivals at equal latency."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from alignatt_agent.curves.bootstrap import Resampled
from alignatt_agent.evaluation.statistics import Estimate

LATENCIES = {"cu_ms": "LongYAAL-CU", "ca_ms": "LongYAAL-CA"}
QUALITIES = {"bleu": "BLEU", "chrf": "chrF"}


@dataclass(frozen=True, slots=True)
class Comparison:
    """An operating point against the front of one rival.

    Attributes:
        target: target language code.
        point: name of the operating point.
        rival: curve of the rival.
        latency: key of the latency.
        quality: key of the quality.
        latency_ms: latency of the operating point.
        ours: its quality.
        theirs: quality on the rival's front at that latency; NaN where it is never that fast.
        margin: the difference with its interval.
    """

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
        plain = asdict(self) | {"margin": _plain(self.margin), "theirs": _number(self.theirs)}
        return plain | {
            "dominates": "yes" if self.dominates else "no",
            "interval_above_zero": self.certain,
        }


def compare(
    target: str, scores: Resampled, point: str, run: str, curves: Mapping[str, Sequence[str]]
) -> list[Comparison]:
    """Compare an operating point with every rival, in both qualities at both latencies.

    Args:
        target: target language code.
        scores: scores of all runs.
        point: name of the operating point.
        run: its run.
        curves: runs of every rival curve.
    """
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
    lines = [
        "BLEU of the maintained operating points against each rival's front at the same LongYAAL-CU"
        " (95 % paired bootstrap over segments)",
        f"{'target':<7}{'point':<6}{'CU s':>6}{'BLEU':>7}  {'rival':<31}{'BLEU':>7}"
        f"{'margin':>8}  {'interval':<16}dominates",
    ]
    lines.append("-" * len(lines[-1]))
    for item in comparisons:
        if (item.latency, item.quality) != ("cu_ms", "bleu"):
            continue
        if math.isnan(item.theirs):
            numbers = f"{'never that fast':<33}"
        else:
            between = f"[{item.margin.low:+.1f}, {item.margin.high:+.1f}]"
            numbers = f"{item.theirs:>7.2f}{item.margin.value:>+8.2f}  {between:<16}"
        verdict = "yes" if item.certain else "yes, interval holds 0" if item.dominates else "no"
        lines.append(
            f"{item.target:<7}{item.point:<6}{item.latency_ms / 1000:>6.2f}{item.ours:>7.2f}  "
            f"{item.rival:<31}{numbers}{verdict}"
        )
    return "\n".join(lines)


def _plain(margin: Estimate) -> dict[str, float | None]:
    return {key: _number(value) for key, value in asdict(margin).items()}


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 4)
