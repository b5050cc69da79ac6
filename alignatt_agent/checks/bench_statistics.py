"""Paired statistics of timings, and the bars that they are held against; pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


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


def paired_difference(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Summarise ``ours - theirs``, pair by pair.

    Raises:
        ValueError: the numbers of figures differ.
    """
    return spread([a - b for a, b in zip(ours, theirs, strict=True)])


_T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""97.5 % points of Student's t with 1, 2, ... degrees of freedom."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A difference in percent, and its 95 % interval over independent starts.

    Attributes:
        percent: the mean over starts.
        low: lower end of the interval.
        high: its upper end.
        by_start: the difference found in each.
    """

    percent: float
    low: float
    high: float
    by_start: tuple[float, ...]

    def __str__(self) -> str:
        return f"{self.percent:+.1f} ({self.low:+.1f} to {self.high:+.1f})"


def estimate(ratios: Sequence[float]) -> Estimate:
    """Estimate a ratio from one of each start; geometric mean and Student's t interval.

    Raises:
        ValueError: there are fewer than 2 ratios or more than 10.
    """
    count = len(ratios)
    if not 2 <= count <= len(_T_95) + 1:
        raise ValueError(f"expected 2 to {len(_T_95) + 1} starts, got {count}")
    logs = np.log(ratios)
    mean, half = logs.mean(), _T_95[count - 2] * logs.std(ddof=1) / math.sqrt(count)
    percent, low, high = (100 * math.expm1(x) for x in (mean, mean - half, mean + half))
    return Estimate(percent, low, high, tuple(100 * (ratio - 1) for ratio in ratios))


@dataclass(frozen=True, slots=True)
class Bar:
    """A figure and what it has to reach.

    Attributes:
        name: what is measured.
        figure: the measured value.
        limit: the bar.
        at_least: whether the figure has to reach the limit, or must not exceed it.
        detail: quartiles and the like, for the reader.
    """

    name: str
    figure: float
    limit: float
    at_least: bool
    detail: str = ""

    @property
    def met(self) -> bool:
        """Whether the figure is on the right side of the limit."""
        return self.figure >= self.limit if self.at_least else self.figure <= self.limit

    def __str__(self) -> str:
        relation = ">=" if self.at_least else "<="
        verdict = "ok" if self.met else "missed"
        line = f"{verdict:<7}{self.name}: {self.figure:.3g} (bar {relation} {self.limit:g})"
        return f"{line}  {self.detail}".rstrip()

    def as_dict(self) -> dict[str, Any]:
        """Return the fields and the verdict, for JSON."""
        return {**asdict(self), "met": self.met}


def slowdown_bar(name: str, slowdown: Estimate, floor: Estimate, percent: float) -> Bar:
    """Hold a slowdown to at most ``percent``, and say what the same comparison finds in nothing."""
    detail = (
        f"95 % interval {slowdown.low:+.2f} to {slowdown.high:+.2f} % over "
        f"{len(slowdown.by_start)} starts; plain against another plain {floor.percent:+.2f} % "
        f"({floor.low:+.2f} to {floor.high:+.2f})"
    )
    return Bar(f"{name}, % slower", slowdown.percent, percent, False, detail)


def speedup_bar(name: str, ours: Sequence[float], theirs: Sequence[float], times: float) -> Bar:
    """Hold the paired speed-up of ``ours`` over ``theirs`` to at least ``times``."""
    ratio = paired_ratio(theirs, ours)
    detail = f"quartiles {ratio.q1:.3g} to {ratio.q3:.3g}, {ratio.count} pairs"
    return Bar(f"{name}, times faster", ratio.median, times, True, detail)
