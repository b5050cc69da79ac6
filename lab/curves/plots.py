"""Plots of quality against latency, one panel per target (matplotlib, extra ``plots``)."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from alignatt_agent.evaluation.plots import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    YELLOW,
    pyplot,
)
from alignatt_agent.evaluation.statistics import LEVEL, Array
from lab.curves.grid import HINDSIGHT, ORACLE, curve_names
from lab.curves.pareto import LATENCIES, QUALITIES, Resampled, front

_COLORS = (BLUE, SKY, PURPLE, GREEN, VERMILION, ORANGE, YELLOW, GREY)
_MARKERS = "os^DXPhv<>"
_BOUNDS = {ORACLE: "d", HINDSIGHT: "."}
"""Markers of curves that are no policies."""
_PLACES = 160
"""Number of latencies at which a band is drawn."""
_HIGHEST = 100.5
"""BLEU and chrF end at 100; the rest is space for markers."""
_ZOOM = 14
"""Points of quality below the lower operating point that the enlarged panels show."""
_LONGEST_S = 4.2
"""The regimes of IWSLT end at 4 s; slower runs only compress the panels."""


@dataclass(frozen=True, slots=True)
class Panel:
    """Content of one target's panel.

    Attributes:
        title: the title.
        scores: scores of all runs.
        curves: names of the runs on each curve.
        points: names of the operating points' runs, by label.
    """

    title: str
    scores: Resampled
    curves: Mapping[str, Sequence[str]]
    points: Mapping[str, str]


def draw_all(panels: Sequence[Panel], folder: Path, note: str) -> None:
    """Draw both qualities over both latencies, as PNG and SVG."""
    plt = pyplot()
    for quality, latency in product(QUALITIES, LATENCIES):
        figure = _draw(plt, panels, latency, quality, note)
        path = folder / f"{quality}-{latency.removesuffix('_ms')}"
        figure.savefig(path.with_suffix(".png"))
        # Without a date, the same figure is the same file.
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
        plt.close(figure)


def _draw(plt: Any, panels: Sequence[Panel], latency: str, quality: str, note: str) -> Any:
    """Return a figure with one column per panel; the lower row enlarges the best qualities.

    All axes share the range of latency, and the axes of a row share that of quality.
    """
    figure, rows = plt.subplots(
        2,
        len(panels),
        figsize=(1.2 + 4.6 * len(panels), 8.6),
        sharex=True,
        sharey="row",
        squeeze=False,
    )
    operating: list[float] = []
    for panel in panels:
        operating += [panel.scores.value(run, quality) for run in panel.points.values()]
    bottoms = (0, max(0, min(operating) - _ZOOM))
    for row, bottom in zip(rows, bottoms, strict=True):
        for axes, panel in zip(row, panels, strict=True):
            _panel(axes, panel, latency, quality)
            axes.set_ylim(bottom, _HIGHEST)
    for axes, panel in zip(rows[0], panels, strict=True):
        axes.set_title(panel.title)
    for axes in rows[1]:
        axes.set_xlabel(f"{LATENCIES[latency]}, s")
    rows[0][0].set_ylabel(QUALITIES[quality])
    rows[1][0].set_ylabel(f"{QUALITIES[quality]}, enlarged")
    left, right = rows[0][0].get_xlim()
    rows[0][0].set_xlim(max(left, -_LONGEST_S / 8), min(_LONGEST_S, right))
    _legend(figure, rows[0])
    figure.supxlabel(textwrap.fill(note, 55 * len(panels)), fontsize=8, color="#555555")
    return figure


def _legend(figure: Any, row: Sequence[Any]) -> None:
    """Add one legend for all panels; panels may have different curves."""
    handle_by_label: dict[str, Any] = {}
    for axes in row:
        handles, labels = axes.get_legend_handles_labels()
        handle_by_label |= dict(zip(labels, handles, strict=True))
    figure.legend(
        handle_by_label.values(),
        handle_by_label.keys(),
        loc="outside upper center",
        ncols=min(4, len(handle_by_label)),
    )


def style(curve: str) -> tuple[str, str]:
    """Return color and marker of a curve, by its place in the grid; bounds are black."""
    if curve in _BOUNDS:
        return "black", _BOUNDS[curve]
    place = curve_names().index(curve)
    color = _COLORS[place % len(_COLORS)]
    marker = _MARKERS[place % len(_MARKERS)]
    return color, marker


def _panel(axes: Any, panel: Panel, latency: str, quality: str) -> None:
    for curve, runs in panel.curves.items():
        _curve(axes, panel.scores, curve, runs, latency, quality)
    for label, run in panel.points.items():
        x = panel.scores.value(run, latency) / 1000
        y = panel.scores.value(run, quality)
        axes.plot(
            x,
            y,
            "*",
            color="black",
            markersize=15,
            markeredgecolor="white",
            zorder=5,
            linestyle="none",
            label="maintained default",
            clip_on=False,
        )
        axes.annotate(
            label,
            (x, y),
            xytext=(9, -14),
            textcoords="offset points",
            weight="bold",
            zorder=6,
        )
    axes.grid(alpha=0.25)


def _curve(
    axes: Any, scores: Resampled, curve: str, runs: Sequence[str], latency: str, quality: str
) -> None:
    """Draw all points of a curve, its Pareto front, and the front's band."""
    color, marker = style(curve)
    x_ms = scores.values(runs, latency)
    y = scores.values(runs, quality)
    x = x_ms / 1000
    axes.scatter(x, y, s=9, color=color, alpha=0.3, linewidths=0)
    best = front(x_ms, y)
    axes.plot(x[best], y[best], color=color, marker=marker, markersize=5, lw=1.8, label=curve)
    if len(best) > 1:
        fastest, slowest = x_ms[best[0]], x_ms[best[-1]]
        places = np.linspace(fastest, slowest, _PLACES)
        fronts = scores.front_at(runs, latency, quality, places)
        # The first front is that of the set itself.
        _band(axes, fronts[1:], places, color)


def _band(axes: Any, fronts: Array, places: Array, color: str) -> None:
    """Draw the interval of a front at ``places``; ``fronts`` are ``[resamples, places]``."""
    # With few segments, most resamples lack a front at some places.
    supported = np.isfinite(fronts).mean(axis=0) > 0.5
    if not supported.any():
        return
    tail = (100 - LEVEL) / 2
    low, high = np.nanpercentile(fronts[:, supported], [tail, 100 - tail], axis=0)
    axes.fill_between(places[supported] / 1000, low, high, color=color, alpha=0.13, lw=0)
