"""``curves.json``, and its tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from alignatt_agent.evaluation.statistics import LEVEL
from lab.commands import table
from lab.curves.grid import Point
from lab.curves.pareto import BLOCK, LATENCIES, QUALITIES, Resampled
from lab.curves.runs import PointRun

METHOD = (
    "rivals interpolated on their Pareto front at the latency of the operating point; paired "
    f"bootstrap over blocks of {BLOCK} segments, {{resamples}} resamples, {LEVEL} %; the front is "
    "computed in every resample"
)
"""How operating points are compared with rivals."""


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


def ablation_entry(points: Sequence[Point], scores: Resampled) -> list[dict[str, Any]]:
    """Return one row per variant of the gate on one target."""
    return [{"name": x.name, "label": x.label, **_intervals(scores, x.name)} for x in points]


def _intervals(scores: Resampled, run: str) -> dict[str, Any]:
    return {score: scores.interval(run, score).as_json() for score in (*QUALITIES, *LATENCIES)}


def tables(content: Mapping[str, Any]) -> Iterator[str]:
    """Format the comparisons of BLEU at equal LongYAAL-CU, and the ablations of each target."""
    yield "the operating points against each rival's front at the same LongYAAL-CU"
    compared = content["dominance"]["comparisons"]
    chosen = [x for x in compared if (x["latency"], x["quality"]) == ("cu_ms", "bleu")]
    headers = ("target", "point", "CU s", "BLEU", "rival", "margin", "interval", "dominates")
    yield table([_against(item) for item in chosen], headers)
    for target, variants in content["ablation"].items():
        yield f"\n{target}: the gate at the low point, one setting changed at a time"
        rows = [
            [
                row["label"],
                *(f"{row[score]['value']:.1f}" for score in QUALITIES),
                *(f"{row[score]['value'] / 1000:.2f}" for score in LATENCIES),
            ]
            for row in variants
        ]
        yield table(rows, ("variant", "BLEU", "chrF", "CU s", "CA s"))


def _against(item: Mapping[str, Any]) -> list[str]:
    latency, margin = f"{item['latency_ms'] / 1000:.2f}", item["margin"]
    row = [item["target"], item["point"], latency, f"{item['ours']:.2f}", item["rival"]]
    if margin["value"] is None:
        return [*row, "", "never that fast", "yes"]
    ahead = "{value:+.2f},[{low:+.1f}; {high:+.1f}]".format(**margin).split(",")
    return [*row, *ahead, item["dominates"]]
