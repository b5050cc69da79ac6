"""Compute curves, dominance and ablations from two configurations and a dev set."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from alignatt_agent.cluster.connection import ClusterOptions
from alignatt_agent.config.agent_config import AgentConfig, ConfigError
from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.plan import EvalRun
from alignatt_agent.evaluation.statistics import LEVEL
from lab.commands import table, write_json
from lab.curves.cached_agent import CachedAgent, StartEngines
from lab.curves.grid import Point, Size, ablations, curve_names, sweep
from lab.curves.pareto import BLOCK, LATENCIES, QUALITIES, RESAMPLES, Resampled, compare
from lab.curves.plots import Panel, draw_all
from lab.curves.runs import curve_of, runs_of, score_all, stream
from lab.local_jobs import job_runner

FIGURES = (*QUALITIES, *LATENCIES)

METHOD = (
    "operating points against rivals, and rivals against the operating points' curve, where it has "
    "points on both sides: its Pareto front is interpolated at that latency; paired bootstrap over "
    f"blocks of {BLOCK} segments, {RESAMPLES} resamples, {LEVEL} %; the front is computed in every "
    "resample"
)
"""Method of comparing operating points with rivals."""


@dataclass(frozen=True, slots=True)
class Study:
    """A comparison; ``only`` names points to run, without ablations, instead of the grid."""

    plans: Sequence[EvalRun]
    bases: Mapping[str, AgentConfig]
    output: Path
    size: Size
    only: Sequence[str] = ()
    streams: int = 1

    def __post_init__(self) -> None:
        if self.streams < 1:
            raise ConfigError(f"--streams {self.streams}: expected a number of talks, 1 or more")
        low, high = ((base.models, base.speech.recognizer) for base in self.bases.values())
        if low != high:
            raise ConfigError("the low and high configurations must use the same models")


def conduct(
    study: Study, cluster: ClusterOptions | None = None, start_engines: StartEngines | None = None
) -> dict[str, Any]:
    """Stream, score, compare and draw; finished results are kept."""
    folder = study.output
    targets = [plan.target for plan in study.plans]
    derived = folder / "ablation" / "head_sets"
    variants = [] if study.only else ablations(study.bases["low"], targets, derived)
    points = sweep(study.size, study.only)
    main = runs_of(points, study.plans, study.bases, folder / "runs")
    changed = runs_of(variants, study.plans, study.bases, folder / "ablation" / "runs")
    cache = None if cluster else folder / "cache.sqlite"
    with job_runner(cluster, len(study.plans[0].devset.talks), CachedAgent.shutdown) as runner:
        for runs in (main, changed):
            stream(runner, runs, start_engines, cache, study.streams)
    segments = score_all([*main, *changed])

    entries, rows = {}, {}
    comparisons: list[dict[str, Any]] = []
    differences: list[dict[str, Any]] = []
    panels = []
    for target in targets:
        pairs = zip(points, (run for run in main if run.target == target), strict=True)
        mine = [replace(point, curve=curve_of(point, run)) for point, run in pairs]
        scores = Resampled({run.name: found for run, found in segments if run.target == target})
        every = {curve: [x.name for x in mine if x.curve == curve] for curve in curve_names()}
        curves = {curve: names for curve, names in every.items() if names}
        operating = [point for point in mine if not point.settings]
        own = {point.curve for point in operating}
        for point in operating:
            rivals = {curve: names for curve, names in curves.items() if curve != point.curve}
            comparisons += compare(target, scores, point.label, point.name, rivals)
        for point in mine:  # a rival whose every point is slower than the operating one
            if point.curve not in own:
                ours, label = (
                    {curve: curves[curve] for curve in own},
                    f"{point.curve}, {point.label}",
                )
                comparisons += compare(target, scores, label, point.name, ours)
        rivals_of = [(one, two) for one in operating for two in mine if two.curve != one.curve]
        differences += [_difference(target, scores, one, two) for one, two in rivals_of]
        entries[target] = {"runs": [_entry(point, scores) for point in mine]}
        if variants:
            rows[target] = [_entry(point, scores) for point in variants]
        stars = {point.label: point.name for point in operating}
        panels.append(Panel(f"English to {language(target).name}", scores, curves, stars))
    content = {
        "signature": study.plans[0].signature,
        "note": note(study),
        "targets": entries,
        "ablation": rows,
        "dominance": {"method": METHOD, "comparisons": comparisons},
        "differences": differences,
    }
    write_json(folder / "curves.json", content)
    draw_all(panels, folder, note(study))
    return content


def note(study: Study) -> str:
    """Return the conditions of the figures."""
    plan = study.plans[0]
    devset = plan.devset
    talks = f"{len(devset.talks)} talks, {len(devset.segments)} segments, {devset.seconds:.0f} s"
    label = f"{plan.signature['label']}; " if "label" in plan.signature else ""
    times = "seconds of engines with whole drafts, no early stop"
    if study.streams > 1:
        times = f"seconds of recognition alone, {study.streams} talks at once"
    return (
        f"{label}{talks}; bands: 95 % paired bootstrap over blocks of {BLOCK} segments; CA: {times}"
    )


def _entry(point: Point, scores: Resampled) -> dict[str, Any]:
    found = {score: scores.interval(point.name, score).as_json() for score in FIGURES}
    return {"name": point.name, "curve": point.curve, "label": point.label, **found}


def _difference(target: str, scores: Resampled, point: Point, rival: Point) -> dict[str, Any]:
    found = {x: scores.difference(point.name, rival.name, x).as_json() for x in FIGURES}
    run = {"target": target, "point": point.label, "curve": rival.curve, "label": rival.label}
    return {**run, **found}


def tables(content: Mapping[str, Any]) -> Iterator[str]:
    """Format the comparisons of BLEU at equal LongYAAL-CU, and the ablations of each target."""
    yield "operating points and rivals against each other's front at the same LongYAAL-CU"
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
        return [*row, "", "", item["dominates"]]
    ahead = "{value:+.2f},[{low:+.1f}; {high:+.1f}]".format(**margin).split(",")
    return [*row, *ahead, item["dominates"]]
