"""Plan the runs of a sweep, stream them with cached engines, and score them by segment."""

import io
import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from tqdm import tqdm

from alignatt_agent.cascade.engines import Engines
from alignatt_agent.config.agent_config import AgentConfig, ModelsConfig
from alignatt_agent.config.languages import language
from alignatt_agent.doctor.speakers import speak
from alignatt_agent.evaluation import run as evaluation
from alignatt_agent.evaluation.agent_choice import AgentChoice
from alignatt_agent.evaluation.cache import key_of
from alignatt_agent.evaluation.devset import Talk
from alignatt_agent.evaluation.latency import read_instances, yaal_ms
from alignatt_agent.evaluation.plan import EvalRun
from alignatt_agent.evaluation.run_files import RunFiles
from alignatt_agent.evaluation.score import Scores, ScoringError, bleu_tokenizer
from alignatt_agent.evaluation.stream import prepare
from alignatt_agent.evaluation.talk_jobs import TalkResult, stream_talks
from lab.curves.cached_agent import CachedAgent, EngineSetup, StartEngines, stream_cached
from lab.curves.grid import ALIGNATT, ORACLE, SINGLE, Point
from lab.curves.oracle import Oracle, OracleAgent, translate
from lab.curves.pareto import SegmentScores


def curve_of(point: Point, run: EvalRun) -> str:
    """Return the curve of a point; an operating point is on that of its policy."""
    if point.settings:
        return point.curve
    policy = run.choice.resolved.config.policy_for(run.target)
    if policy.name == ALIGNATT and policy == policy.alone():
        return SINGLE
    return policy.name


def runs_of(
    points: Sequence[Point],
    plans: Sequence[EvalRun],
    bases: Mapping[str, AgentConfig],
    folder: Path,
) -> list[EvalRun]:
    """Plan one run for every target and point, target by target."""
    targets = [plan.target for plan in plans]
    choices: list[AgentChoice] = []
    for point in points:
        agent = OracleAgent if point.curve == ORACLE else CachedAgent
        name = f"{agent.__module__}.{agent.__qualname__}"
        config = point.config(bases).model_copy(update={"type": name})
        resolved = CachedAgent.runtime.resolve(config, targets)
        choices.append(AgentChoice(agent, point.name, resolved))
    runs: list[EvalRun] = []
    for plan in plans:
        runs += [_planned(choice, plan, folder) for choice in choices]
    return runs


def _planned(choice: AgentChoice, plan: EvalRun, folder: Path) -> EvalRun:
    """Return the run of one point for the target of ``plan``."""
    config = choice.resolved.config
    head_set = choice.resolved.head_sets.get(plan.target)
    signature = plan.signature | {
        "agent": config.type,
        "config": choice.name,
        "config_sha256": config.digest(),
        "chunk_ms": config.chunk_ms,
        "latency": "CA: seconds that engines took when cached results were computed; not paced",
        "policy": config.policy_for(plan.target).model_dump(),
        # A changed head set invalidates a finished run, even if its name is the same.
        "head_set": key_of(repr(head_set)).hex(),
    }
    files = RunFiles(folder / plan.target / choice.name)
    return replace(plan, name=choice.name, files=files, signature=signature, choice=choice)


def stream(
    runner: Any,
    runs: Sequence[EvalRun],
    start_engines: StartEngines | None,
    cache: Path | None,
    streams: int = 1,
) -> int:
    """Stream the runs whose log is missing or outdated; return their number."""
    missing = [run for run in runs if not run.streamed]
    if not missing:
        return 0
    setup = _engine_setup(runs, start_engines, cache, streams)
    for run in missing:
        prepare(run, keep_talks=True)
    if streams > 1:
        # The cache then contains all results, so that the runs below only write their logs.
        fill_cache(missing, CachedAgent.runtime.open(setup), streams)
    stream_talks(runner, missing, partial(_stream_talk, setup), by_talk=True)
    return len(missing)


def _engine_setup(
    runs: Sequence[EvalRun], start_engines: StartEngines | None, cache: Path | None, streams: int
) -> EngineSetup:
    """Return the engines that all runs share, with the heads of all their head sets."""
    config = runs[0].choice.resolved.config
    if streams > 1:
        models = side_by_side(config.models, streams)
        config = config.model_copy(update={"models": models})
    heads: set[tuple[int, int]] = set()
    for run in runs:
        heads.update(run.choice.resolved.heads)
    return EngineSetup(
        start=start_engines,
        config=config,
        heads=tuple(sorted(heads)),
        cache=cache,
        shared=streams > 1,
    )


def side_by_side(models: ModelsConfig, streams: int) -> ModelsConfig:
    """Return the same models, with engines that take at least this many requests at once."""
    raw = models.model_dump()
    for role in models.engine_roles:
        engine = raw[role]["engine"]
        engine["max_num_seqs"] = max(streams, engine.get("max_num_seqs", 0))
    return ModelsConfig(**raw)


def fill_cache(runs: Sequence[EvalRun], engines: Engines, streams: int) -> None:
    """Stream every talk of every run, ``streams`` at a time, so that engines batch; no output."""
    talks = runs[0].devset.talks
    streams = min(streams, len(runs) * len(talks))
    with ThreadPoolExecutor(streams, "stream") as pool:
        futures: list[Future[None]] = []
        for run in runs:
            futures += [pool.submit(_stream, run, talk, engines) for talk in talks]
        try:
            for future in tqdm(futures, f"{streams} streams at once", unit="talk"):
                future.result()
        except BaseException:
            # Otherwise, all waiting talks would be streamed before the error is raised.
            pool.shutdown(cancel_futures=True)
            raise


def _stream_talk(setup: EngineSetup, run: EvalRun, recording: bytes) -> TalkResult:
    """Stream a run of one talk in this process, see ``stream_cached``."""
    assert run.choice is not None
    if run.agent_class is OracleAgent:
        engines = CachedAgent.runtime.open(setup)
        audio, _ = soundfile.read(io.BytesIO(recording), dtype="float32")
        OracleAgent.units = translate(run.choice.resolved, engines, audio, run.target, Oracle())
    return stream_cached(setup, run, recording)


def _stream(run: EvalRun, talk: Talk, engines: Engines) -> None:
    """Translate one talk without pauses; only the cache keeps the results."""
    resolved = run.choice.resolved
    audio, _ = soundfile.read(talk.wav, dtype="float32")
    if run.agent_class is OracleAgent:
        # The loop runs the generator to its end.
        for _ in translate(resolved, engines, audio, run.target, Oracle()):
            pass
        return
    context = resolved.config.speech.context_of(talk.name)
    speak(resolved, engines, (audio, run.target), context=context)


def score_all(runs: Sequence[EvalRun]) -> list[tuple[EvalRun, SegmentScores]]:
    """Score runs, several at a time; scores of an earlier call are kept.

    Raises:
        ScoringError: a run could not be scored, or its segments give other scores.
    """
    scored = evaluation.score_all(runs, jobs=os.cpu_count() or 1, only_official=True)
    if len(scored) < len(runs):
        failed = len(runs) - len(scored)
        raise ScoringError(f"{failed} of {len(runs)} runs could not be scored, see above")
    return [(run, segment_scores(run, result.scores)) for run, result in scored]


def segment_scores(run: EvalRun, scores: Scores) -> SegmentScores:
    """Return the segment statistics behind the scores of a run.

    Raises:
        ScoringError: the statistics do not add up to ``scores``.
    """
    predictions: list[str] = []
    references: list[str] = []
    cu_ms: list[float | None] = []
    ca_ms: list[float | None] = []
    for instance in read_instances(run.files.instances, language(run.target).latency_unit):
        predictions.append(instance.prediction)
        references.append(instance.reference)
        cu_ms.append(yaal_ms(instance))
        ca_ms.append(yaal_ms(instance, aware=True))
    segments = SegmentScores.of(predictions, references, cu_ms, ca_ms, bleu_tokenizer(run.target))
    _compare_with_official(segments.corpus(), scores, run)
    return segments


def _compare_with_official(by_segments: Mapping[str, float], scores: Scores, run: EvalRun) -> None:
    """Raise an error if scores that were computed from segments differ from OmniSTEval's."""
    official = {
        "bleu": scores.bleu,
        "chrf": scores.chrf,
        "cu_ms": scores.longyaal_cu_ms,
        "ca_ms": scores.longyaal_ca_ms,
    }
    for name, value in official.items():
        ours = by_segments[name]
        expected = math.nan if value is None else value
        if not np.isclose(ours, expected, rtol=0, atol=1e-2, equal_nan=True):
            raise ScoringError(
                f"{run.files.folder}: {name} is {value} by OmniSTEval and {ours} by segments"
            )
