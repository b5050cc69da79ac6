"""From two configurations and a dev set to curves, dominance and ablations."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alignatt_agent.cascade.loading import load_engines
from alignatt_agent.cluster.connection import ClusterOptions
from alignatt_agent.cluster.jobs import Job, JobRunner, job_runner
from alignatt_agent.config.agent_config import AgentConfig, ConfigError
from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.cache import ResultCache, key_of
from alignatt_agent.evaluation.plan import EvalRun
from lab.commands import write_json
from lab.curves.cached_agent import CachedAgent, EngineSetup, StartEngines
from lab.curves.grid import ALIGNATT, Size, ablations, curve_names, sweep
from lab.curves.pareto import BLOCK, RESAMPLES, Resampled, compare
from lab.curves.peak_accuracy import aligned_pairs, peak_accuracy
from lab.curves.plots import Panel, draw_all
from lab.curves.report import METHOD, ablation_entry, curve_entry
from lab.curves.runs import PointRun, runs_of, score_all, setup_of, stream

CACHE = "cache.sqlite"


@dataclass(frozen=True, slots=True)
class Study:
    """What is compared; ``only`` names points to run, without ablations, instead of the grid.

    ``pairs`` have gold alignments for the peak accuracy; ``None`` leaves that column empty.
    """

    plans: Sequence[EvalRun]
    bases: Mapping[str, AgentConfig]
    output: Path
    size: Size
    pairs: str | None
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
    peaks: dict[str, dict[str, float]] = {}
    cache = None if cluster else folder / CACHE
    with job_runner(cluster, len(study.plans[0].devset.talks), CachedAgent.shutdown) as runner:
        for runs in (main, changed):
            stream(runner, runs, start_engines, cache, study.streams)
        if changed and study.pairs is not None:
            peaks = _peaks(study, changed, runner, start_engines)
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
            rows[target] = ablation_entry(variants, scores, peaks.get(target, {}))
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


def _peaks(
    study: Study, runs: Sequence[PointRun], runner: JobRunner, start_engines: StartEngines
) -> dict[str, dict[str, float]]:
    """Measure peak accuracy by target and variant, unless it is cached."""
    made_from = json.dumps([item.run.signature for item in runs], sort_keys=True)
    job = Job("peak accuracy", measure_peaks, (setup_of(runs, start_engines), study, runs))
    with ResultCache(study.output / "peaks.sqlite") as cache:
        key = key_of("peak accuracy", str(study.pairs), made_from)
        return cache.get_or_compute(key, lambda: next(runner.results([job]))[1])


def measure_peaks(
    setup: EngineSetup, study: Study, runs: Sequence[PointRun]
) -> dict[str, dict[str, float]]:
    """Measure peak accuracy by target and variant."""
    assert study.pairs is not None
    engines = setup.load()
    reader: Any = engines.translation  # its engines read rows of given translations, too
    found = {}
    for plan in study.plans:
        pairs = aligned_pairs(
            study.pairs, plan.source, plan.target, engines.tokenizer, study.bases["low"]
        )
        mine = [run for run in runs if run.target == plan.target]
        found[plan.target] = peak_accuracy(reader, pairs, mine)
    return found
