"""Paired statistics of timings, and the bars that they are held against; pure."""

from __future__ import annotations

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


def slowdown_bar(name: str, ours: Sequence[float], theirs: Sequence[float], percent: float) -> Bar:
    """Hold the paired slowdown of ``ours`` against ``theirs`` to at most ``percent``."""
    ratio = paired_ratio(ours, theirs)
    low, high = 100 * (ratio.q1 - 1), 100 * (ratio.q3 - 1)
    detail = f"quartiles {low:.2f} to {high:.2f} %, {ratio.count} pairs"
    return Bar(f"{name}, % slower", 100 * (ratio.median - 1), percent, False, detail)


def speedup_bar(name: str, ours: Sequence[float], theirs: Sequence[float], times: float) -> Bar:
    """Hold the paired speed-up of ``ours`` over ``theirs`` to at least ``times``."""
    ratio = paired_ratio(theirs, ours)
    detail = f"quartiles {ratio.q1:.3g} to {ratio.q3:.3g}, {ratio.count} pairs"
    return Bar(f"{name}, times faster", ratio.median, times, True, detail)
