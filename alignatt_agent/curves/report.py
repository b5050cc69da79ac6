"""``curves.json`` and the ablation table."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from alignatt_agent.curves.bootstrap import RESAMPLES, Resampled
from alignatt_agent.curves.dominance import LATENCIES, QUALITIES, Comparison
from alignatt_agent.curves.grid import Point
from alignatt_agent.curves.pareto import front
from alignatt_agent.curves.sweep import Run
from alignatt_agent.evaluation.statistics import LEVEL

SCORES = (*QUALITIES, *LATENCIES)


def curve_entry(
    runs: Sequence[Run], scores: Resampled, curves: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Return the runs of one target with intervals, and which of them are on which front."""
    return {
        "runs": [
            {
                "name": run.point.name,
                "curve": run.point.curve,
                "label": run.point.label,
                "settings": {"base": run.point.base, **run.point.settings},
                "chunk_ms": run.config.chunk_ms,
                **{score: _interval(scores, run.point.name, score) for score in SCORES},
            }
            for run in runs
        ],
        "fronts": {
            latency: {
                quality: {
                    curve: _front(scores, names, latency, quality)
                    for curve, names in curves.items()
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
    """Return one row per variant of the gate on one target.

    Args:
        points: the variants.
        scores: of the variants and of ``agreement``.
        peaks: peak accuracy of every variant.
        agreement: runs of local agreement; variants differ in latency, and its front tells what
            that latency is worth.
    """
    return [
        {
            "name": point.name,
            "label": point.label,
            "peak_accuracy": None if peaks is None else round(peaks[point.name], 4),
            **{score: _interval(scores, point.name, score) for score in SCORES},
            "over_agreement": _margin(scores, point.name, agreement),
        }
        for point in points
    ]


def ablation_table(rows: Mapping[str, Sequence[Mapping[str, Any]]], notes: Sequence[str]) -> str:
    """Format the ablations of all targets as Markdown."""
    lines = ["# The gate at the low operating point, one setting changed at a time", ""]
    lines += [*notes, ""]
    for target, variants in rows.items():
        lines += [
            f"## {target}",
            "",
            "| Variant | Peak accuracy | BLEU | chrF | CU s | CA s | Over agreement |",
            "|---|---|---|---|---|---|---|",
        ]
        for row in variants:
            peak, over = row["peak_accuracy"], row["over_agreement"]
            cells = [
                str(row["label"]),
                "-" if peak is None else f"{100 * peak:.1f} %",
                f"{row['bleu']['value']:.1f}",
                f"{row['chrf']['value']:.1f}",
                f"{row['cu_ms']['value'] / 1000:.2f}",
                f"{row['ca_ms']['value'] / 1000:.2f}",
                "-"
                if over is None
                else f"{over['value']:+.1f} [{over['low']:+.1f}, {over['high']:+.1f}]",
            ]
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file in one step."""
    fresh = path.with_suffix(".part")
    fresh.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    fresh.replace(path)


def dominance_entry(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """Return the comparisons and how they were made."""
    return {
        "method": f"rivals interpolated on their Pareto front at the latency of the operating "
        f"point; paired bootstrap over segments, {RESAMPLES} resamples, {LEVEL} %; the front is "
        f"taken anew in every resample",
        "comparisons": [item.as_json() for item in comparisons],
    }


def _margin(scores: Resampled, run: str, rivals: Sequence[str]) -> dict[str, float] | None:
    found = scores.margin(run, rivals, "cu_ms", "bleu") if rivals else None
    return None if found is None or math.isnan(found.value) else found.as_json()


def _interval(scores: Resampled, run: str, score: str) -> dict[str, float]:
    return scores.interval(run, score).as_json()


def _front(scores: Resampled, names: Sequence[str], latency: str, quality: str) -> list[str]:
    x = np.array([scores.value(name, latency) for name in names])
    y = np.array([scores.value(name, quality) for name in names])
    return [names[place] for place in front(x, y)]
