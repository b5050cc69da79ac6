"""Plan the runs of a sweep, stream them with cached engines, and score them by segment."""

import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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
from alignatt_agent.evaluation.talk_jobs import stream_talks
from lab.curves.cached_agent import CachedAgent, EngineSetup, StartEngines, stream_cached
from lab.curves.grid import ALIGNATT, SINGLE, Point
from lab.curves.pareto import SegmentScores

_AGENT = f"{CachedAgent.__module__}.{CachedAgent.__qualname__}"


def curve_of(point: Point, run: EvalRun) -> str:
    """Return the curve of a point; an operating point is on that of its policy."""
    if point.settings:
        return point.curve
    policy = run.choice.resolved.config.policy_for(run.target)
    return SINGLE if policy.name == ALIGNATT and policy == policy.alone() else policy.name


def runs_of(
    points: Sequence[Point],
    plans: Sequence[EvalRun],
    bases: Mapping[str, AgentConfig],
    folder: Path,
) -> list[EvalRun]:
    """Plan one run for every target and point, target by target."""
    targets = [plan.target for plan in plans]
    choices = []
    for point in points:
        config = point.config(bases).model_copy(update={"type": _AGENT})
        resolved = CachedAgent.runtime.resolve(config, targets)
        choices.append(AgentChoice(CachedAgent, point.name, resolved))
    return [_planned(choice, plan, folder) for plan in plans for choice in choices]


def _planned(choice: AgentChoice, plan: EvalRun, folder: Path) -> EvalRun:
    config = choice.resolved.config
    signature = plan.signature | {
        "agent": _AGENT,
        "config": choice.name,
        "config_sha256": config.digest(),
        "chunk_ms": config.chunk_ms,
        "latency": "CA: seconds that engines took when cached results were computed; not paced",
        "policy": config.policy_for(plan.target).model_dump(),
        "head_set": key_of(repr(choice.resolved.head_sets.get(plan.target))).hex(),
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
    if missing:
        config = runs[0].choice.resolved.config
        if streams > 1:
            models = side_by_side(config.models, streams)
            config = config.model_copy(update={"models": models})
        heads = sorted({head for run in runs for head in run.choice.resolved.heads})
        setup = EngineSetup(start_engines, config, tuple(heads), cache, streams > 1)
        for run in missing:
            prepare(run, keep_talks=True)
        if streams > 1:
            fill_cache(missing, CachedAgent.runtime.open(setup), streams)
        stream_talks(runner, missing, partial(stream_cached, setup), by_talk=True)
    return len(missing)


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
        asked = [pool.submit(_stream, run, talk, engines) for run in runs for talk in talks]
        try:
            for one in tqdm(asked, f"{streams} streams at once", unit="talk"):
                one.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _stream(run: EvalRun, talk: Talk, engines: Engines) -> None:
    resolved = run.choice.resolved
    audio, _ = soundfile.read(talk.wav, dtype="float32")
    context = resolved.config.speech.context_of(talk.name)
    speak(resolved, engines, (audio, run.target), context=context)


def score_all(runs: Sequence[EvalRun]) -> list[tuple[EvalRun, SegmentScores]]:
    """Score runs, several at a time; scores of an earlier call are kept."""
    found = evaluation.score_all(runs, os.cpu_count() or 1, True)
    if len(found) < len(runs):
        missing = len(runs) - len(found)
        raise ScoringError(f"{missing} of {len(runs)} runs could not be scored, see above")
    return [(run, segment_scores(run, result.scores)) for run, result in found]


def segment_scores(run: EvalRun, scores: Scores) -> SegmentScores:
    """Return the segment statistics behind the scores of a run."""
    unit = language(run.target).latency_unit
    instances = read_instances(run.files.instances, unit)
    found = SegmentScores.of(
        [item.prediction for item in instances],
        [item.reference for item in instances],
        [yaal_ms(item) for item in instances],
        [yaal_ms(item, aware=True) for item in instances],
        bleu_tokenizer(run.target),
    )
    official = (scores.bleu, scores.chrf, scores.longyaal_cu_ms, scores.longyaal_ca_ms)
    for (name, ours), value in zip(found.corpus().items(), official, strict=True):
        if not np.isclose(ours, math.nan if value is None else value, 0, 1e-2, equal_nan=True):
            raise ScoringError(
                f"{run.files.folder}: {name} is {value} by OmniSTEval and {ours} by segments"
            )
    return found
