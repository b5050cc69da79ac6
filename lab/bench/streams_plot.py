"""The lag of many streams at once, as a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from alignatt_agent.evaluation.plots import BLUE, GREY, VERMILION, pyplot


def draw_lags(rows: Sequence[Mapping[str, Any]], most: int, chunk_s: float, path: Path) -> None:
    """Draw median and 95th percentile of the lag over the number of streams, and the knee."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(6, 4))
    numbers = [row["streams"] for row in rows]
    for key, label, color in (("lag_p95_s", "95 %", VERMILION), ("lag_p50_s", "median", BLUE)):
        axes.plot(numbers, [row[key] for row in rows], "o-", color=color, label=label)
    axes.axhline(chunk_s, color=GREY, linestyle="--", label="a chunk")
    if most:
        axes.axvline(most, color=GREY, linestyle=":", label=f"kept up with: {most}")
    axes.set_xscale("log", base=2)
    axes.set_xticks(numbers, [str(number) for number in numbers])
    axes.set_yscale("log")
    axes.set_xlabel("streams at once")
    axes.set_ylabel("lag of an emission, s")
    axes.legend()
    figure.savefig(path)
    plt.close(figure)
