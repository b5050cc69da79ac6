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
from alignatt_agent.evaluation.statistics import LEVEL
from lab.curves.grid import curve_names
from lab.curves.pareto import LATENCIES, QUALITIES, Resampled, front

_COLORS = (BLUE, SKY, PURPLE, GREEN, VERMILION, ORANGE, YELLOW, GREY)
_MARKERS = "os^DXPhv<>"
_PLACES = 160
_ZOOM = 14
"""Points of quality below the lower operating point that the enlarged panels show."""
_LONGEST_S = 4.2
"""The regimes of IWSLT end at 4 s; slower runs only compress the panels."""


@dataclass(frozen=True, slots=True)
class Panel:
    """Content of one target's panel."""

    title: str
    scores: Resampled
    curves: Mapping[str, Sequence[str]]
    points: Mapping[str, str]


def draw_all(panels: Sequence[Panel], folder: Path, note: str) -> None:
    """Draw both qualities over both latencies, as PNG and SVG."""
    plt = pyplot()
    for quality, latency in product(QUALITIES, LATENCIES):
        figure = _draw(plt, panels, latency, quality, note)
        for kind, metadata in (("png", None), ("svg", {"Date": None})):  # reproducible files
            path = folder / f"{quality}-{latency.removesuffix('_ms')}.{kind}"
            figure.savefig(path, metadata=metadata)
        plt.close(figure)


def _draw(plt: Any, panels: Sequence[Panel], latency: str, quality: str, note: str) -> Any:
    figure, rows = plt.subplots(
        2,
        len(panels),
        figsize=(1.2 + 4.6 * len(panels), 8.6),
        sharex=True,
        sharey="row",
        squeeze=False,
    )
    operating = [p.scores.value(run, quality) for p in panels for run in p.points.values()]
    for row, limits in zip(rows, [(0, 100.5), (min(operating) - _ZOOM, 100.5)], strict=True):
        for axes, panel in zip(row, panels, strict=True):
            _panel(axes, panel, latency, quality)
            axes.set_ylim(max(0, limits[0]), limits[1])
    for axes, panel in zip(rows[0], panels, strict=True):
        axes.set_title(panel.title)
    for axes in rows[1]:
        axes.set_xlabel(f"{LATENCIES[latency]}, s")
    rows[0][0].set_ylabel(QUALITIES[quality])
    rows[1][0].set_ylabel(f"{QUALITIES[quality]}, enlarged")
    left, right = rows[0][0].get_xlim()
    rows[0][0].set_xlim(max(left, -_LONGEST_S / 8), min(_LONGEST_S, right))
    handles = {
        label: handle
        for axes in rows[0]
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    columns = min(4, len(handles))
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=columns)
    figure.supxlabel(textwrap.fill(note, 55 * len(panels)), fontsize=8, color="#555555")
    return figure


def style(curve: str) -> tuple[str, str]:
    """Return color and marker of a curve, by its place in the grid."""
    place = curve_names().index(curve)
    return _COLORS[place % len(_COLORS)], _MARKERS[place % len(_MARKERS)]


def _panel(axes: Any, panel: Panel, latency: str, quality: str) -> None:
    for curve, runs in panel.curves.items():
        color, marker = style(curve)
        x, y = panel.scores.values(runs, latency), panel.scores.values(runs, quality)
        best = front(x, y)
        axes.scatter(x / 1000, y, s=9, color=color, alpha=0.3, linewidths=0)
        axes.plot(
            x[best] / 1000, y[best], color=color, marker=marker, markersize=5, lw=1.8, label=curve
        )
        if len(best) > 1:
            places = np.linspace(x[best[0]], x[best[-1]], _PLACES)
            drawn = panel.scores.front_at(runs, latency, quality, places)[1:]
            known = np.isfinite(drawn).mean(axis=0) > 0.5
            if not known.any():  # with few segments, most resamples lack a front
                continue
            tail = (100 - LEVEL) / 2
            low, high = np.nanpercentile(drawn[:, known], [tail, 100 - tail], axis=0)
            axes.fill_between(places[known] / 1000, low, high, color=color, alpha=0.13, lw=0)
    for name, run in panel.points.items():
        place = panel.scores.value(run, latency) / 1000, panel.scores.value(run, quality)
        axes.plot(
            *place, "*", color="black", markersize=15, markeredgecolor="white", zorder=5,
            linestyle="none", label="maintained default", clip_on=False,
        )  # fmt: skip
        axes.annotate(
            name, place, xytext=(9, -14), textcoords="offset points", weight="bold", zorder=6
        )
    axes.grid(alpha=0.25)
