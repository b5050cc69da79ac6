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
from lab.curves.grid import HINDSIGHT, ORACLE, Point, Size, ablations, curve_names, sweep
from lab.curves.pareto import (
    BLOCK,
    LATENCIES,
    QUALITIES,
    RESAMPLES,
    Resampled,
    SegmentScores,
    best_in_hindsight,
    compare,
    compare_means,
    mean_estimate,
)
from lab.curves.plots import Panel, draw_all
from lab.curves.runs import curve_of, runs_of, score_all, stream
from lab.local_jobs import job_runner

FIGURES = (*QUALITIES, *LATENCIES)

PRICES = (0, 2, 5, 10, 20)
"""Points of sentence BLEU that a second of latency may cost a choice in hindsight."""

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
        low, high = self.bases.values()
        if low.models != high.models or low.speech.recognizer != high.speech.recognizer:
            raise ConfigError("the low and high configurations must use the same models")


@dataclass(frozen=True, slots=True)
class TargetResults:
    """The scored runs of one target.

    Attributes:
        target: code of the target language.
        points: points of the sweep, each with the curve that it is on for this target.
        variants: points of the ablations.
        scores: scores of the runs of all points, by the names of points.
    """

    target: str
    points: Sequence[Point]
    variants: Sequence[Point]
    scores: Resampled

    @property
    def operating_points(self) -> list[Point]:
        """Return the points of the two configurations."""
        return [point for point in self.points if point.name.startswith("operating-")]

    @property
    def compared_points(self) -> list[Point]:
        """Return the points that are compared with all rivals."""
        oracle = [point for point in self.points if point.curve == ORACLE]
        return [*self.operating_points, *oracle]

    @property
    def curves(self) -> dict[str, list[str]]:
        """Return the names of each curve's runs, in the order of legends and tables."""
        curves: dict[str, list[str]] = {}
        for curve in curve_names():
            names = [point.name for point in self.points if point.curve == curve]
            if names:
                curves[curve] = names
        return curves

    def comparisons(self) -> Iterator[dict[str, Any]]:
        """Compare operating points and rivals, each with the curves of the other side.

        The oracle is compared with the curves of both sides.
        """
        curves = self.curves
        for point in self.compared_points:
            rivals = {curve: names for curve, names in curves.items() if curve != point.curve}
            yield from compare(self.target, self.scores, point.label, point.name, rivals)
        # If all points of a rival are slower than an operating point, the rival's front has no
        # value there. The operating points' curve may have one at the rival's points.
        operating_curves: dict[str, list[str]] = {}
        for point in self.operating_points:
            operating_curves[point.curve] = curves[point.curve]
        for point in self.points:
            if point.curve not in (*operating_curves, ORACLE):
                label = f"{point.curve}, {point.label}"
                yield from compare(self.target, self.scores, label, point.name, operating_curves)

    def differences(self) -> Iterator[dict[str, Any]]:
        """Yield the scores of each compared point minus those of each point of a rival."""
        for point in self.compared_points:
            for rival in self.points:
                if rival.curve != point.curve:
                    yield self._difference(point, rival)

    def _difference(self, point: Point, rival: Point) -> dict[str, Any]:
        row: dict[str, Any] = {
            "target": self.target,
            "point": point.label,
            "curve": rival.curve,
            "label": rival.label,
        }
        for score in FIGURES:
            row[score] = self.scores.difference(point.name, rival.name, score).as_json()
        return row

    def rows(self, points: Sequence[Point]) -> list[dict[str, Any]]:
        """Return the scores of points with their intervals."""
        rows: list[dict[str, Any]] = []
        for point in points:
            row: dict[str, Any] = {"name": point.name, "curve": point.curve, "label": point.label}
            for score in FIGURES:
                row[score] = self.scores.interval(point.name, score).as_json()
            rows.append(row)
        return rows

    def panel(self) -> Panel:
        """Return the content of the target's panel in the figures."""
        title = f"English to {language(self.target).name}"
        operating_names = {point.label: point.name for point in self.operating_points}
        return Panel(title, self.scores, self.curves, operating_names)


def conduct(
    study: Study, cluster: ClusterOptions | None = None, start_engines: StartEngines | None = None
) -> dict[str, Any]:
    """Stream, score, compare and draw; finished results are kept."""
    folder = study.output
    targets = [plan.target for plan in study.plans]
    variants: list[Point] = []
    if not study.only:
        head_set_folder = folder / "ablation" / "head_sets"
        variants = ablations(study.bases["low"], targets, head_set_folder)
    points = sweep(study.size, study.only)
    sweep_runs = runs_of(points, study.plans, study.bases, folder / "runs")
    ablation_runs = runs_of(variants, study.plans, study.bases, folder / "ablation" / "runs")
    # Workers on a cluster need not share a file system.
    cache = None if cluster else folder / "cache.sqlite"
    with job_runner(cluster, len(study.plans[0].devset.talks), CachedAgent.shutdown) as runner:
        for runs in (sweep_runs, ablation_runs):
            stream(runner, runs, start_engines, cache, study.streams)
    scored = score_all([*sweep_runs, *ablation_runs])

    results = [_results(target, points, variants, scored) for target in targets]
    content = _content(study, results)
    write_json(folder / "curves.json", content)
    panels = [result.panel() for result in results]
    draw_all(panels, folder, note(study))
    return content


def _results(
    target: str,
    points: Sequence[Point],
    variants: Sequence[Point],
    scored: Sequence[tuple[EvalRun, SegmentScores]],
) -> TargetResults:
    """Collect the runs of one target from those of all targets."""
    runs: dict[str, EvalRun] = {}
    segments: dict[str, SegmentScores] = {}
    for run, scores in scored:
        if run.target == target:
            runs[run.name] = run
            segments[run.name] = scores
    points_on_curves: list[Point] = []
    for point in points:
        # Targets may have different policies, so an operating point's curve depends on the target.
        curve = curve_of(point, runs[point.name])
        points_on_curves.append(replace(point, curve=curve))
    swept = [segments[point.name] for point in points]
    for price in PRICES:
        point = Point(f"hindsight-{price}", HINDSIGHT, f"{price} BLEU per second")
        points_on_curves.append(point)
        segments[point.name] = best_in_hindsight(swept, price)
    return TargetResults(target, points_on_curves, variants, Resampled(segments))


def _content(study: Study, results: Sequence[TargetResults]) -> dict[str, Any]:
    """Return the content of ``curves.json``."""
    runs_by_target: dict[str, Any] = {}
    ablation_by_target: dict[str, Any] = {}
    comparisons: list[dict[str, Any]] = []
    differences: list[dict[str, Any]] = []
    for result in results:
        runs_by_target[result.target] = {"runs": result.rows(result.points)}
        if result.variants:
            ablation_by_target[result.target] = result.rows(result.variants)
        comparisons += result.comparisons()
        differences += result.differences()
    means: dict[str, Any] = {}
    if len(results) > 1:
        means = _means(results)
    return {
        "signature": study.plans[0].signature,
        "note": note(study),
        "targets": runs_by_target,
        "ablation": ablation_by_target,
        "dominance": {"method": METHOD, "comparisons": comparisons},
        "differences": differences,
        "means": means,
    }


def _means(results: Sequence[TargetResults]) -> dict[str, Any]:
    """Compare points with the rivals that all targets have, averaged over the targets."""
    first = results[0]
    scores = [result.scores for result in results]
    comparisons: list[dict[str, Any]] = []
    differences: list[dict[str, Any]] = []
    for point in first.compared_points:
        for curve, names in first.curves.items():
            is_shared = all(result.curves.get(curve) == names for result in results)
            if is_shared and curve != point.curve:
                comparisons += compare_means(scores, point.label, point.name, curve, names)
        rivals = [rival for rival in first.points if rival.curve != point.curve]
        differences += [_mean_difference(scores, point, rival) for rival in rivals]
    return {"comparisons": comparisons, "differences": differences}


def _mean_difference(targets: Sequence[Resampled], point: Point, rival: Point) -> dict[str, Any]:
    row: dict[str, Any] = {"point": point.label, "curve": rival.curve, "label": rival.label}
    for score in FIGURES:
        differences = [scores.differences(point.name, rival.name, score) for scores in targets]
        row[score] = mean_estimate(differences).as_json()
    return row


def note(study: Study) -> str:
    """Return the conditions of the figures."""
    plan = study.plans[0]
    devset = plan.devset
    talks = f"{len(devset.talks)} talks, {len(devset.segments)} segments, {devset.seconds:.0f} s"
    if "label" in plan.signature:
        talks = f"{plan.signature['label']}; {talks}"
    times = "seconds of engines with whole drafts, no early stop"
    if study.streams > 1:
        # Shared drafts are not timed, see ``EngineSetup``.
        times = f"seconds of recognition alone, {study.streams} talks at once"
    return f"{talks}; bands: 95 % paired bootstrap over blocks of {BLOCK} segments; CA: {times}"


def tables(content: Mapping[str, Any]) -> Iterator[str]:
    """Format the comparisons of BLEU at equal LongYAAL-CU, and the ablations of each target."""
    yield "operating points and rivals against each other's front at the same LongYAAL-CU"
    rows: list[list[str]] = []
    for comparison in content["dominance"]["comparisons"]:
        if (comparison["latency"], comparison["quality"]) != ("cu_ms", "bleu"):
            continue
        rows.append(_comparison_cells(comparison))
    headers = ("target", "point", "CU s", "BLEU", "rival", "margin", "interval", "dominates")
    yield table(rows, headers)
    for target, variants in content["ablation"].items():
        yield f"\n{target}: the gate at the low point, one setting changed at a time"
        variant_rows = [_variant_cells(variant) for variant in variants]
        yield table(variant_rows, ("variant", "BLEU", "chrF", "CU s", "CA s"))


def _comparison_cells(comparison: Mapping[str, Any]) -> list[str]:
    margin = comparison["margin"]
    margin_text, interval_text = "", ""
    if margin["value"] is not None:
        margin_text = f"{margin['value']:+.2f}"
        interval_text = f"[{margin['low']:+.1f}; {margin['high']:+.1f}]"
    return [
        comparison["target"],
        comparison["point"],
        f"{comparison['latency_ms'] / 1000:.2f}",
        f"{comparison['ours']:.2f}",
        comparison["rival"],
        margin_text,
        interval_text,
        comparison["dominates"],
    ]


def _variant_cells(variant: Mapping[str, Any]) -> list[str]:
    cells = [variant["label"]]
    cells += [f"{variant[quality]['value']:.1f}" for quality in QUALITIES]
    for latency in LATENCIES:
        seconds = variant[latency]["value"] / 1000
        cells.append(f"{seconds:.2f}")
    return cells
