"""From two configurations and a dev set to curves, dominance and ablations."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from alignatt_agent.config.agent_config import AgentConfig, ConfigError
from alignatt_agent.config.languages import language
from alignatt_agent.evaluation import plan as evaluation
from alignatt_agent.evaluation.cache import ResultCache, key_of
from lab.curves.grid import AGREEMENT, ALIGNATT, CURVES, Size, ablations, sweep
from lab.curves.pareto import BLOCK, RESAMPLES, Comparison, Resampled, compare, dominance_table
from lab.curves.peak_accuracy import aligned_pairs, peak_accuracy
from lab.curves.plots import Panel, draw_all
from lab.curves.report import ablation_entry, ablation_table, curve_entry, dominance_entry
from lab.curves.runs import Run, StartEngines, engines_for, runs_of, score_all, stream


@dataclass(frozen=True, slots=True)
class Study:
    """What is compared.

    Attributes:
        plans: checked evaluation of the low operating point, one for every target.
        bases: configurations of the operating points.
        output: folder to write to.
        size: of the grid.
        pairs: pairs with gold alignments for peak accuracy; ``None`` leaves the column empty.
        resamples: of the bootstrap.
        only: names of the points that run beside the operating ones, without ablations; empty for
            the whole grid.
        streams: talks at once.

    Raises:
        ConfigError: the operating points do not share their models, or nothing is to be streamed.
    """

    plans: Sequence[evaluation.Run]
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


class Place(Protocol):
    """Where a study runs; a context."""

    def __enter__(self) -> Place:
        """Be ready for work."""

    def __exit__(self, *error: Any) -> None:
        """End the engines."""

    def stream(self, runs: Sequence[Run], memo: Path, title: str) -> Any:
        """Stream the runs whose log is missing or made from something else."""

    def apply(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return ``function(start_engines, *arguments)``."""


@dataclass(frozen=True, slots=True)
class Here:
    """This process.

    Attributes:
        start_engines: loads the engines for a set of heads.
        shutdown: ends them.
        streams: talks at once.
    """

    start_engines: StartEngines
    shutdown: Callable[[], None]
    streams: int = 1

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def stream(self, runs: Sequence[Run], memo: Path, title: str) -> Any:
        """Stream the runs whose log is missing or made from something else."""
        return stream(runs, memo, self.start_engines, title, self.streams)

    def apply(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Do something that needs engines."""
        return function(self.start_engines, *arguments)


def conduct(study: Study, place: Place) -> list[Comparison]:
    """Stream, score, compare and draw; everything finished earlier is kept.

    Args:
        study: what is compared.
        place: where it runs.

    Returns:
        The comparisons with the rivals.

    Raises:
        EngineError: an engine failed; the same command goes on from there.
        LogError: the log of a run cannot be scored.
        ScoringError: OmniSTEval failed.
    """
    folder, memo = study.output, study.output / "memo.sqlite"
    targets = [plan.target for plan in study.plans]
    variants = (
        []
        if study.only
        else ablations(study.bases["low"], targets, folder / "ablation" / "head_sets")
    )
    main = runs_of(sweep(study.size, study.only), study.plans, study.bases, folder / "runs")
    changed = runs_of(variants, study.plans, study.bases, folder / "ablation" / "runs")
    with place:
        place.stream(main, memo, "sweep")
        place.stream(changed, memo, "ablations")
        peaks = _peaks(study, changed, memo, place) if changed else {}
    segments = score_all([*main, *changed])

    entries: dict[str, Any] = {}
    rows: dict[str, Any] = {}
    comparisons, panels = [], []
    for target in targets:
        mine = [run for run in main if run.target == target]
        scores = Resampled(
            {run.name: found for run, found in segments if run.target == target}, study.resamples
        )
        curves = {
            curve: names
            for curve in CURVES
            if (names := [run.name for run in mine if run.curve == curve])
        }
        operating = [run for run in mine if not run.point.settings]
        for run in operating:
            ours = (ALIGNATT, run.curve)
            rivals = {curve: names for curve, names in curves.items() if curve not in ours}
            comparisons += compare(target, scores, run.point.label, run.name, rivals)
        entries[target] = curve_entry(mine, scores, curves)
        if variants:
            rows[target] = ablation_entry(
                variants, scores, peaks.get(target), curves.get(AGREEMENT, [])
            )
        points = {run.point.label: run.name for run in operating}
        panels.append(Panel(f"English to {language(target).name}", scores, curves, points))
    content = {
        "signature": study.plans[0].signature,
        "note": note(study),
        "targets": entries,
        "ablation": rows,
        "dominance": dominance_entry(comparisons, study.resamples),
    }
    text = json.dumps(content, indent=1, ensure_ascii=False)
    (folder / "curves.json").write_text(text + "\n", encoding="utf-8")
    if rows:
        table = ablation_table(rows, [note(study), _ablation_note(study)])
        (folder / "ablation.md").write_text(table, encoding="utf-8")
    (folder / "dominance.txt").write_text(dominance_table(comparisons) + "\n", encoding="utf-8")
    draw_all(panels, folder, note(study))
    return comparisons


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


def _ablation_note(study: Study) -> str:
    where = study.pairs or "no pairs with gold alignments were given"
    return (
        f"Peak accuracy: share of aligned target tokens whose gate peak falls on an aligned source "
        f"word, gold translations fed whole ({where}). Over agreement: BLEU minus that of "
        f"local_agreement at the same CU, with its 95 % interval."
    )


def _peaks(
    study: Study, runs: Sequence[Run], memo: Path, place: Place
) -> dict[str, dict[str, float]]:
    """Measure peak accuracy by target and variant, unless it is remembered."""
    if study.pairs is None:
        return {}
    made_from = json.dumps([run.signature for run in runs], sort_keys=True)
    with ResultCache(memo) as results:
        key = key_of("peak accuracy", study.pairs, made_from)
        return results.get_or_compute(key, lambda: place.apply(measure_peaks, study, runs))


def measure_peaks(
    start_engines: StartEngines, study: Study, runs: Sequence[Run]
) -> dict[str, dict[str, float]]:
    """Measure peak accuracy by target and variant.

    Args:
        start_engines: loads the engines for a set of heads.
        study: with pairs.
        runs: the variants.
    """
    assert study.pairs is not None
    engines = engines_for(runs, start_engines)
    reader: Any = engines.translation  # its engines read rows of given translations, too
    found = {}
    for plan in study.plans:
        pairs = aligned_pairs(
            study.pairs, plan.source, plan.target, engines.tokenizer, study.bases["low"]
        )
        mine = [run for run in runs if run.target == plan.target]
        found[plan.target] = peak_accuracy(reader, pairs, mine)
    return found
