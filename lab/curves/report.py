"""``curves.json`` and the ablation table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tabulate import tabulate

from alignatt_agent.evaluation.statistics import LEVEL
from lab.curves.grid import Point
from lab.curves.pareto import BLOCK, LATENCIES, QUALITIES, Comparison, Resampled
from lab.curves.runs import PointRun

SCORES = (*QUALITIES, *LATENCIES)


def curve_entry(
    runs: Sequence[PointRun], scores: Resampled, curves: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Return the runs of one target with intervals, and which of them are on which front."""
    return {
        "runs": [
            {
                "name": run.name,
                "curve": run.point.curve,
                "label": run.point.label,
                "settings": {"base": run.point.base, **run.point.settings},
                "chunk_ms": run.config.chunk_ms,
                **_intervals(scores, run.name),
            }
            for run in runs
        ],
        "fronts": {
            latency: {
                quality: {
                    curve: scores.front(names, latency, quality) for curve, names in curves.items()
                }
                for quality in QUALITIES
            }
            for latency in LATENCIES
        },
    }


def ablation_entry(
    points: Sequence[Point],
    scores: Resampled,
    peaks: Mapping[str, float] | None,
    agreement: Sequence[str],
) -> list[dict[str, Any]]:
    """Return one row per variant of the gate on one target."""
    return [
        {
            "name": point.name,
            "label": point.label,
            "peak_accuracy": None if peaks is None else round(peaks[point.name], 4),
            **_intervals(scores, point.name),
            "over_agreement": _margin(scores, point.name, agreement),
        }
        for point in points
    ]


def ablation_table(rows: Mapping[str, Sequence[Mapping[str, Any]]], notes: Sequence[str]) -> str:
    """Format the ablations of all targets as Markdown."""
    parts = ["# The gate at the low operating point, one setting changed at a time", *notes]
    headers = ["Variant", "Peak accuracy", "BLEU", "chrF", "CU s", "CA s", "Over agreement"]
    for target, variants in rows.items():
        cells = [
            [
                row["label"],
                "-" if row["peak_accuracy"] is None else f"{100 * row['peak_accuracy']:.1f} %",
                *(f"{row[score]['value']:.1f}" for score in QUALITIES),
                *(f"{row[score]['value'] / 1000:.2f}" for score in LATENCIES),
                "{value:+.1f} [{low:+.1f}, {high:+.1f}]".format(**row["over_agreement"])
                if row["over_agreement"]
                else "-",
            ]
            for row in variants
        ]
        table = tabulate(cells, headers=headers, tablefmt="pipe", disable_numparse=True)
        parts += [f"## {target}", table]
    return "\n\n".join(parts) + "\n"


def dominance_entry(comparisons: Sequence[Comparison], resamples: int) -> dict[str, Any]:
    """Return the comparisons and how they were made."""
    return {
        "method": f"rivals interpolated on their Pareto front at the latency of the operating "
        f"point; paired bootstrap over blocks of {BLOCK} segments, {resamples} resamples, "
        f"{LEVEL} %; the front is computed in every resample",
        "comparisons": [item.as_json() for item in comparisons],
    }


def _intervals(scores: Resampled, run: str) -> dict[str, Any]:
    return {score: scores.interval(run, score).as_json() for score in SCORES}


def _margin(scores: Resampled, run: str, rivals: Sequence[str]) -> dict[str, float] | None:
    found = scores.margin(run, rivals, "cu_ms", "bleu") if rivals else None
    return None if found is None or math.isnan(found.value) else found.as_json()
