"""The runs of a sweep: planned, streamed on cached engines, and scored segment by segment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from alignatt_agent.cluster.jobs import JobRunner
from alignatt_agent.config.agent_config import AgentConfig, ModelsConfig
from alignatt_agent.config.head_sets import HeadSet
from alignatt_agent.config.languages import language
from alignatt_agent.config.resolved import Resolved, readout_for
from alignatt_agent.engine.memory_plan import resolve
from alignatt_agent.evaluation import run as evaluation
from alignatt_agent.evaluation.cache import key_of
from alignatt_agent.evaluation.latency import read_instances, yaal_ms
from alignatt_agent.evaluation.plan import EvalRun
from alignatt_agent.evaluation.run_files import RunFiles
from alignatt_agent.evaluation.score import Scores, ScoringError, bleu_tokenizer
from alignatt_agent.evaluation.stream import prepare
from alignatt_agent.evaluation.talk_jobs import stream_talks
from alignatt_agent.types.engines import Readout
from lab.curves.cached_agent import CachedAgent, EngineSetup, StartEngines, stream_cached
from lab.curves.grid import ALIGNATT, SINGLE, Point
from lab.curves.segment_scores import SegmentScores
from lab.curves.side_by_side import fill_cache

_AGENT = f"{CachedAgent.__module__}.{CachedAgent.__qualname__}"


@dataclass(frozen=True, slots=True)
class PointRun:
    """One point on one target language."""

    point: Point
    run: EvalRun
    resolved: Resolved

    @property
    def name(self) -> str:
        """Name of the point."""
        return self.point.name

    @property
    def target(self) -> str:
        """Code of the language of the output."""
        return self.run.target

    @property
    def config(self) -> AgentConfig:
        """The configuration."""
        return self.resolved.config

    @property
    def curve(self) -> str:
        """The curve of the point; an operating point is on that of its policy."""
        policy = self.config.policy_for(self.target)
        if self.point.settings:
            return self.point.curve
        return SINGLE if policy.name == ALIGNATT and policy == policy.alone() else policy.name


def runs_of(
    points: Sequence[Point],
    plans: Sequence[EvalRun],
    bases: Mapping[str, AgentConfig],
    folder: Path,
) -> list[PointRun]:
    """Plan one run for every target and point, target by target."""
    targets = [plan.target for plan in plans]
    configs = [(point, point.config(bases)) for point in points]
    chosen = [
        (point, resolve(config.model_copy(update={"type": _AGENT}), targets), config.digest())
        for point, config in configs
    ]
    return [
        PointRun(point, _planned(point.name, resolved, digest, plan, folder), resolved)
        for plan in plans
        for point, resolved, digest in chosen
    ]


def _planned(name: str, resolved: Resolved, digest: str, plan: EvalRun, folder: Path) -> EvalRun:
    assert plan.choice is not None
    config = resolved.config
    signature = plan.signature | {
        "agent": _AGENT,
        "config": name,
        "config_sha256": digest,
        "chunk_ms": config.chunk_ms,
        "latency": "CA: seconds that engines took when cached results were computed; not paced",
        "policy": config.policy_for(plan.target).model_dump(),
        "head_set": key_of(repr(resolved.head_sets.get(plan.target))).hex(),
    }
    return replace(
        plan,
        name=name,
        files=RunFiles(folder / plan.target / name),
        signature=signature,
        choice=replace(plan.choice, cls=CachedAgent, name=name, resolved=resolved),
    )


def stream(
    runner: JobRunner,
    runs: Sequence[PointRun],
    start_engines: StartEngines,
    cache: Path | None,
    streams: int = 1,
) -> int:
    """Stream the runs whose log is missing or made from something else; return their number."""
    missing = [item.run for item in runs if not item.run.streamed]
    if missing:
        setup = setup_of(runs, start_engines, cache, streams)
        for run in missing:
            prepare(run, keep_talks=True)
        if streams > 1:
            fill_cache(missing, CachedAgent.open(setup), streams)
        stream_talks(runner, missing, partial(stream_cached, setup), by_talk=True)
    return len(missing)


def setup_of(
    runs: Sequence[PointRun],
    start_engines: StartEngines,
    cache: Path | None = None,
    streams: int = 1,
) -> EngineSetup:
    """Return engines that read every head that a run asks for, for so many talks at a time."""
    config = runs[0].config
    if streams > 1:
        models = side_by_side(config.models, streams)
        config = config.model_copy(update={"models": models})
    return EngineSetup(start_engines, config, tuple(shared_readouts(runs)), cache)


def side_by_side(models: ModelsConfig, streams: int) -> ModelsConfig:
    """Return the same models in engines that take at least so many requests at once."""
    raw = models.model_dump()
    for model in raw.values():
        model["engine"]["max_num_seqs"] = max(streams, model["engine"].get("max_num_seqs", 0))
    return ModelsConfig(**raw)


def shared_readouts(runs: Sequence[PointRun]) -> list[Readout]:
    """Return the widest readout of every head set, by which all its runs share drafts."""
    widest: dict[tuple[HeadSet, bool], Readout] = {}
    for run in runs:
        head_set = run.resolved.head_sets.get(run.target)
        if head_set is not None:
            readout = readout_for(run.config, head_set, language(run.target))
            key = head_set, readout.probabilities
            widest[key] = max(widest.get(key, readout), readout, key=lambda item: len(item.heads))
    return list(widest.values())


def score_all(runs: Sequence[PointRun]) -> list[tuple[PointRun, SegmentScores]]:
    """Score runs, several at a time; scores of an earlier call are kept."""
    found = evaluation.score_all([item.run for item in runs], os.cpu_count() or 1, True)
    if len(found) < len(runs):
        missing = len(runs) - len(found)
        raise ScoringError(f"{missing} of {len(runs)} runs could not be scored, see above")
    return [
        (item, segment_scores(run, result.scores))
        for item, (run, result) in zip(runs, found, strict=True)
    ]


def segment_scores(run: EvalRun, scores: Scores) -> SegmentScores:
    """Return what the scores of a run are made of."""
    unit = language(run.target).latency_unit
    instances = read_instances(run.files.instances, unit, len(run.devset.segments))
    found = SegmentScores.of(
        [item.prediction for item in instances],
        [item.reference for item in instances],
        [yaal_ms(item) for item in instances],
        [yaal_ms(item, aware=True) for item in instances],
        bleu_tokenizer(run.target),
    )
    official = {
        "bleu": scores.bleu,
        "chrf": scores.chrf,
        "cu_ms": scores.longyaal_cu_ms,
        "ca_ms": scores.longyaal_ca_ms,
    }
    for name, ours in found.corpus().items():
        value = official[name]
        if value is None or abs(ours - value) > 1e-2:
            raise ScoringError(
                f"{run.files.folder}: {name} is {value} by OmniSTEval and {ours} by segments"
            )
    return found
