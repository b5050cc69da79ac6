"""From two configurations and a dev set to curves, dominance and ablations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alignatt_agent.cascade.loading import load_engines
from alignatt_agent.cluster.connection import ClusterOptions
from alignatt_agent.cluster.jobs import job_runner
from alignatt_agent.config.agent_config import AgentConfig, ConfigError
from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.plan import EvalRun
from lab.commands import write_json
from lab.curves.cached_agent import CachedAgent, StartEngines
from lab.curves.grid import ALIGNATT, Size, ablations, curve_names, sweep
from lab.curves.pareto import BLOCK, RESAMPLES, Resampled, compare
from lab.curves.plots import Panel, draw_all
from lab.curves.report import METHOD, ablation_entry, curve_entry
from lab.curves.runs import runs_of, score_all, stream

CACHE = "cache.sqlite"


@dataclass(frozen=True, slots=True)
class Study:
    """What is compared; ``only`` names points to run, without ablations, instead of the grid."""

    plans: Sequence[EvalRun]
    bases: Mapping[str, AgentConfig]
    output: Path
    size: Size
    resamples: int = RESAMPLES
    only: Sequence[str] = ()
    streams: int = 1

    def __post_init__(self) -> None:
        if self.streams < 1:
            raise ConfigError(f"--streams {self.streams}: give how many talks at once, 1 or more")
        if self.bases["high"].models != self.bases["low"].models:
            raise ConfigError("the low and the high configuration must run the same models")


def conduct(
    study: Study, cluster: ClusterOptions | None = None, start_engines: StartEngines = load_engines
) -> dict[str, Any]:
    """Stream, score, compare and draw; everything finished earlier is kept."""
    folder = study.output
    targets = [plan.target for plan in study.plans]
    derived = folder / "ablation" / "head_sets"
    variants = [] if study.only else ablations(study.bases["low"], targets, derived)
    main = runs_of(sweep(study.size, study.only), study.plans, study.bases, folder / "runs")
    changed = runs_of(variants, study.plans, study.bases, folder / "ablation" / "runs")
    cache = None if cluster else folder / CACHE
    with job_runner(cluster, len(study.plans[0].devset.talks), CachedAgent.shutdown) as runner:
        for runs in (main, changed):
            stream(runner, runs, start_engines, cache, study.streams)
    segments = score_all([*main, *changed])

    entries, rows = {}, {}
    comparisons: list[dict[str, Any]] = []
    panels = []
    for target in targets:
        mine = [run for run in main if run.target == target]
        scores = Resampled(
            {run.name: found for run, found in segments if run.target == target}, study.resamples
        )
        names = {curve: [r.name for r in mine if r.curve == curve] for curve in curve_names()}
        curves = {curve: runs for curve, runs in names.items() if runs}
        operating = [run for run in mine if not run.point.settings]
        for run in operating:
            ours = (ALIGNATT, run.curve)
            rivals = {curve: names for curve, names in curves.items() if curve not in ours}
            comparisons += compare(target, scores, run.point.label, run.name, rivals)
        entries[target] = curve_entry(mine, scores, curves)
        if variants:
            rows[target] = ablation_entry(variants, scores)
        points = {run.point.label: run.name for run in operating}
        panels.append(Panel(f"English to {language(target).name}", scores, curves, points))
    method = METHOD.format(resamples=study.resamples)
    content = {
        "signature": study.plans[0].signature,
        "note": note(study),
        "targets": entries,
        "ablation": rows,
        "dominance": {"method": method, "comparisons": comparisons},
    }
    write_json(folder / "curves.json", content)
    draw_all(panels, folder, note(study))
    return content


def note(study: Study) -> str:
    """Say what the figures were measured on."""
    plan = study.plans[0]
    devset = plan.devset
    talks = f"{len(devset.talks)} talks, {len(devset.segments)} segments, {devset.seconds:.0f} s"
    label = f"{plan.signature['label']}; " if "label" in plan.signature else ""
    shared = f", {study.streams} talks at once" if study.streams > 1 else ""
    return (
        f"{label}{talks}; bands: 95 % paired bootstrap over blocks of {BLOCK} segments; "
        f"CA: seconds of engines with whole drafts, no early stop{shared}"
    )
