"""The cascade with real dimensions: stage times, concurrent streams, memory."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cache
from itertools import cycle, islice
from typing import Any

import numpy as np
import torch
from transformers import AutoTokenizer

from alignatt_agent.cascade.engines import Engines
from alignatt_agent.cascade.open_stream import chunks as cut
from alignatt_agent.cascade.open_stream import open_stream
from alignatt_agent.cascade.runtime import Runtime
from alignatt_agent.config.agent_config import ModelConfig, load_config
from alignatt_agent.config.languages import language
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.config.resources import find_path
from alignatt_agent.doctor import speakers
from alignatt_agent.engine.memory_plan import plan
from alignatt_agent.engine.start import start_model
from alignatt_agent.types import SAMPLE_RATE
from lab.gpu import dimensions
from lab.gpu.forced import Heads, Machines, Tape, record
from lab.gpu.parts import Context, Result, gpu_memory_used

CONFIG = "micro-low"
"""Configuration of the recorded run: the maintained policy on the embedded models."""

TARGETS = ("de", "it", "zh")
CHUNKS_MS = (250, 500, 850, 1500)
STREAMS = (1, 2, 4, 8, 16, 32, 64)
REAL = "default-low"
"""Configuration of the real models, whose shares of the GPU's memory are taken."""


def chunks(context: Context) -> Result:
    """Measure the real-time factor and stage times for several chunk lengths, talk by talk."""
    lengths, count, seconds = (CHUNKS_MS[:2], 1, 8.0) if context.self_test else (CHUNKS_MS, 3, 60.0)
    jobs, tapes, engines, resolved = _recorded(lengths, count, seconds)
    rows = []
    with machines(context, 4) as (served, memory):
        for chunk_ms in lengths:
            at, listed = _with_chunks(resolved, chunk_ms), tapes[chunk_ms]
            _measured(at, [served.play(engines, listed[0])], jobs[:1])  # warms up
            played = [served.play(engines, tape, i) for i, tape in enumerate(listed, 1)]
            rows.append({"chunk_ms": chunk_ms, **_measured(at, played, jobs)})
    rtf = {row["chunk_ms"]: row["rtf"] for row in rows}
    tight = [role for role, taken in memory.items() if taken.get("over")]
    return {
        "rows": rows,
        "memory": memory,
        "problem": f"memory above its share: {', '.join(tight)}" if tight else "",
        "summary": f"RTF by chunk in ms: {rtf}",
    }


def streams(context: Context) -> Result:
    """Lag of many concurrent real-time streams, at the configured chunk length."""
    counts, seconds = (STREAMS[:2], 4.0) if context.self_test else (STREAMS, 20.0)
    chunk_ms, rows = 500, []
    recorded, tapes, engines, resolved = _recorded((chunk_ms,), min(12, counts[-1]), seconds)
    at = _with_chunks(resolved, chunk_ms)
    jobs = list(islice(cycle(recorded), counts[-1]))
    listed = list(islice(cycle(tapes[chunk_ms]), counts[-1]))
    with machines(context, counts[-1]) as (served, _):
        speakers.speak(at, served.play(engines, listed[0]), jobs[0])  # warms up
        for count in counts:
            players = [served.play(engines, tape, i) for i, tape in enumerate(listed[:count], 1)]
            row = speakers.at_once(at, players, jobs[:count])
            del row["identical"]  # their output comes from the tape
            rows.append(row)
    kept = speakers.knee(rows)
    return {"chunk_ms": chunk_ms, "rows": rows, "summary": f"kept up with {kept} streams"}


# ------------------------------------------------------------------ engines
@contextmanager
def machines(context: Context, sequences: int) -> Iterator[tuple[Machines, dict[str, Any]]]:
    """Start the three engines of other dimensions, one after another, and end them."""
    models, heads = _models(context)
    planned = plan(load_config(REAL), _card_bytes())
    shares = planned.shares
    served: dict[str, Any] = {}
    taken = {}
    try:
        for role in dimensions.MODELS:
            before = gpu_memory_used()
            options = {"max_num_seqs": max(4, sequences), "max_model_len": 2048}
            share = context.engine(shares[role], **options)
            captured = heads if role == "translation" else ()
            begin = time.monotonic()
            served[role] = start_model(role, models[role], captured, **share)
            spent = time.monotonic() - begin
            need = planned.needs[role]
            taken[role] = _taken(before, spent, need, shares[role])
        yield Machines(served["asr"], served["aligner"], served["translation"], heads), taken
    finally:
        for model in served.values():
            model.stop()
        for model in served.values():
            model.shutdown()


def _models(context: Context) -> tuple[Mapping[str, ModelConfig], Heads]:
    """Return the models by role, and heads of the last; the self-test takes the embedded ones."""
    if context.self_test:
        resolved = Runtime().resolve(load_config(CONFIG), TARGETS)
        return dict(resolved.checkpoints), resolved.heads
    written = {role: write(context.models / role) for role, write in dimensions.MODELS.items()}
    return written, dimensions.HEADS


def _card_bytes() -> float:
    """Memory of the GPU; without one, that of the card that the plan is computed for."""
    if not torch.cuda.is_available():
        return 80.0 * 2**30
    return float(torch.cuda.get_device_properties(0).total_memory)


def _taken(before: int | None, seconds: float, need: Any, share: float) -> Any:
    """Return the memory of an engine, and its planned memory."""
    start = {"start_s": round(seconds, 1), "planned_least_bytes": int(need.least)}
    after = gpu_memory_used()
    if before is None or after is None:
        return start
    limit = share * _card_bytes()
    # vLLM's plan excludes graphs and the context of a process, so 1 GiB more is accepted.
    over = after - before > limit + 2**30
    return {"bytes": after - before, "share_bytes": int(limit), "over": over, **start}


# ------------------------------------------------------------------ the run on tape
def _recorded(
    lengths: Sequence[int], count: int, seconds: float
) -> tuple[list[Any], dict[int, list[Tape]], Any, Any]:
    """Stream the embedded models once."""
    jobs = speakers.excerpts(find_path("micro_models/devset"), TARGETS, count, seconds)
    tapes: dict[int, list[Tape]] = defaultdict(list)
    with closing(Runtime()) as runtime:
        resolved = runtime.resolve(load_config(CONFIG), TARGETS)
        engines = runtime.load(resolved)
        tokenizer = AutoTokenizer.from_pretrained(resolved.checkpoints.asr.path)

        @cache
        def tokens(text: str) -> int:
            return len(tokenizer.encode(text, add_special_tokens=False))

        for chunk_ms in lengths:
            for job in jobs:
                tape = Tape()
                recorder = record(engines, tape, tokens)
                speakers.speak(_with_chunks(resolved, chunk_ms), recorder, job)
                tapes[chunk_ms].append(tape)
    return jobs, tapes, engines, resolved


def _with_chunks(resolved: Resolved, chunk_ms: int) -> Resolved:
    return replace(resolved, config=resolved.config.model_copy(update={"chunk_ms": chunk_ms}))


def _measured(
    resolved: Resolved, engines: Sequence[Engines], jobs: Sequence[speakers.Excerpt]
) -> dict[str, Any]:
    """Stream excerpts one after the other; return the times of stages and steps."""
    source = language(resolved.config.source_language)
    stages: Counter[str] = Counter()
    steps = []
    for job_engines, (audio, target) in zip(engines, jobs, strict=True):
        stream = open_stream(resolved, job_engines, source, [language(target)])
        # None stands for the end of the audio.
        for chunk in [*cut(resolved, audio), None]:
            begin = time.perf_counter()
            step = (stream.finish() if chunk is None else stream.step(chunk)).only()
            steps.append(time.perf_counter() - begin)
            stages.update(step.seconds)
    audio_s = sum(len(audio) for audio, _ in jobs) / SAMPLE_RATE
    p50, p95 = (float(value) for value in np.percentile(steps, [50, 95]))
    late = sum(step > resolved.config.chunk_ms / 1000 for step in steps)
    return {
        "audio_s": round(audio_s, 1),
        "rtf": round(sum(steps) / audio_s, 4),
        "rtf_by_stage": {stage: round(spent / audio_s, 4) for stage, spent in stages.items()},
        "step_p50_ms": round(1000 * p50, 1),
        "step_p95_ms": round(1000 * p95, 1),
        "late_steps": late / len(steps),
    }
