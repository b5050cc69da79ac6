"""The runs of a sweep: planned, streamed on remembered engines, and scored segment by segment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from tqdm import tqdm

from alignatt_agent.agent import AlignAttAgent
from alignatt_agent.cascade import Engines
from alignatt_agent.config.agent_config import AgentConfig, ModelsConfig
from alignatt_agent.config.head_sets import HeadSet
from alignatt_agent.config.languages import language
from alignatt_agent.config.policy_config import PolicyConfig
from alignatt_agent.config.resolved import Resolved, readout_for, resolve
from alignatt_agent.evaluation import plan as evaluation
from alignatt_agent.evaluation.cache import ResultCache, key_of
from alignatt_agent.evaluation.check_log import refuse
from alignatt_agent.evaluation.latency import read_instances, yaal_ms
from alignatt_agent.evaluation.log import parse_log
from alignatt_agent.evaluation.run import prepare
from alignatt_agent.evaluation.run import stream as evaluate_stream
from alignatt_agent.evaluation.run_files import RunFiles
from alignatt_agent.evaluation.score import (
    Result,
    ScoringError,
    bleu_tokenizer,
    read_result,
    score,
    write_result,
)
from alignatt_agent.types import Readout
from lab.curves.engine_cache import cached
from lab.curves.grid import ALIGNATT, SINGLE, Point
from lab.curves.segment_scores import SegmentScores
from lab.curves.side_by_side import ask_ahead

StartEngines = Callable[[ModelsConfig, Sequence[tuple[int, int]]], Engines]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(evaluation.Run):
    """One point on one target language.

    Attributes:
        point: what runs.
        resolved: its configuration.
    """

    point: Point
    resolved: Resolved

    @property
    def config(self) -> AgentConfig:
        """Its configuration."""
        return self.resolved.config

    @property
    def policy(self) -> PolicyConfig:
        """That of its target."""
        return self.config.policy_for(self.target)

    @property
    def curve(self) -> str:
        """The curve that it belongs to; an operating point is on that of its policy."""
        policy = self.policy
        if self.point.settings:
            return self.point.curve
        return SINGLE if (policy.name, policy.n) == (ALIGNATT, 1) else policy.name


def runs_of(
    points: Sequence[Point],
    plans: Sequence[evaluation.Run],
    bases: Mapping[str, AgentConfig],
    folder: Path,
) -> list[Run]:
    """Plan one run for every target and point, target by target.

    Args:
        points: what runs.
        plans: checked evaluation of any operating point, for every target.
        bases: configurations of the operating points.
        folder: where the runs go.

    Raises:
        HeadSetError: the head set of a direction does not fit a point.
    """
    targets = [plan.target for plan in plans]
    chosen = [(point, resolve(point.config(bases), targets)) for point in points]
    return [_run(point, resolved, plan, folder) for plan in plans for point, resolved in chosen]


def _run(point: Point, resolved: Resolved, plan: evaluation.Run, folder: Path) -> Run:
    assert plan.choice is not None
    config = resolved.config
    signature = plan.signature | {
        "config": point.name,
        "config_sha256": config.digest(),
        "chunk_ms": config.chunk_ms,
        "policy": config.policy_for(plan.target).model_dump(),
        "head_set": key_of(repr(resolved.head_sets.get(plan.target))).hex(),
    }
    return Run(
        name=point.name,
        devset=plan.devset,
        source=plan.source,
        target=plan.target,
        files=RunFiles(folder / plan.target / point.name),
        signature=signature,
        choice=replace(plan.choice, name=point.name, resolved=resolved),
        point=point,
        resolved=resolved,
    )


def stream(
    runs: Sequence[Run],
    memo: Path,
    start_engines: StartEngines,
    title: str = "streaming",
    streams: int = 1,
) -> int:
    """Stream the runs whose log is missing or made from something else.

    What the engines heard and drafted is remembered. The computation time of a chunk is what its
    results took when they were computed; the little that Python adds is left out.

    Args:
        runs: what to stream; all of the same models.
        memo: file of what is remembered.
        start_engines: loads the engines; not called when nothing is missing.
        title: label of the progress bar.
        streams: talks at once, which then wait for one another.

    Returns:
        The number of runs that were streamed.

    Raises:
        EngineError: an engine failed; logs that are complete stay.
    """
    missing = [run for run in runs if not run.streamed]
    if not missing:
        return 0
    engines = engines_for(runs, start_engines, streams)
    with ResultCache(memo) as results:
        remembered = cached(engines, results, names_of(runs[0]), shared_readouts(runs))
        if streams > 1:
            ask_ahead(missing, remembered, streams, title)
        AlignAttAgent.lend(remembered, lambda: results.spent)
        try:
            for run in (bar := tqdm(missing, desc=title, unit="run")):
                bar.set_postfix_str(f"{run.target} {run.name}, {results.computed} computed")
                prepare(run)
                evaluate_stream(run, traced=True)
                run.files.records.unlink()  # drafts of hours of speech would fill disks
        finally:
            AlignAttAgent.lend(None)
    return len(missing)


def names_of(run: Run) -> dict[str, str]:
    """Return by role everything that a result depends on besides its request."""
    models, versions = run.config.models, run.signature["versions"]
    return {
        role: f"{name}:{getattr(models, role).dtype}:{versions['vllm']}:{versions['torch']}"
        for role, name in run.resolved.identities().items()
    }


def engines_for(runs: Sequence[Run], start_engines: StartEngines, streams: int = 1) -> Engines:
    """Load engines that read every head that a run asks for, for so many talks at once."""
    heads = {head for readout in shared_readouts(runs) for head in readout.heads}
    models = runs[0].resolved.checkpoints
    return start_engines(models.side_by_side(streams) if streams > 1 else models, sorted(heads))


def shared_readouts(runs: Sequence[Run]) -> list[Readout]:
    """Return the widest readout of every head set, by which all its runs share drafts."""
    widest: dict[tuple[HeadSet, bool], Readout] = {}
    for run in runs:
        head_set = run.resolved.head_sets.get(run.target)
        if head_set is not None:
            readout = readout_for(run.config, head_set, language(run.target))
            key = head_set, readout.probabilities
            widest[key] = max(widest.get(key, readout), readout, key=lambda item: len(item.heads))
    return list(widest.values())


def score_all(runs: Sequence[Run]) -> list[tuple[Run, SegmentScores]]:
    """Score runs, several at a time; scores of an earlier call are kept.

    Raises:
        LogError: a log cannot be scored.
        ScoringError: OmniSTEval failed; results that are complete stay.
    """
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(score_segments, runs)
        return list(tqdm(zip(runs, found, strict=True), "scoring", len(runs), unit="run"))


def score_segments(run: Run) -> SegmentScores:
    """Score a run by OmniSTEval, and return what its scores are made of.

    Raises:
        LogError: the log cannot be scored.
        ScoringError: OmniSTEval failed, or the sums of the segments are not its scores.
    """
    files = run.files
    unit = language(run.target).latency_unit
    if not run.scored:
        log = parse_log(files.metrics)
        refuse(log, run.devset, unit)
        scores = score(files, run.devset, run.target, log)
        write_result(Result(run.name, run.target, scores, {}, run.signature), files)
    scores = read_result(files.folder).scores
    official = {
        "bleu": scores.bleu,
        "chrf": scores.chrf,
        "cu_ms": scores.longyaal_cu_ms,
        "ca_ms": scores.longyaal_ca_ms,
    }
    instances = read_instances(files.instances, unit, len(run.devset.segments))
    found = SegmentScores.of(
        [item.prediction for item in instances],
        [item.reference for item in instances],
        [yaal_ms(item) for item in instances],
        [yaal_ms(item, aware=True) for item in instances],
        bleu_tokenizer(run.target),
    )
    for name, ours in found.corpus().items():
        value = official[name]
        if value is None or abs(ours - value) > 1e-2:
            raise ScoringError(
                f"{files.folder}: {name} is {value} by OmniSTEval and {ours} by segments"
            )
    return found
