"""The cascade on real dimensions: stage times, streams at once, memory."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import psutil
import torch
from transformers import AutoTokenizer

from alignatt_agent.cascade.open_stream import chunks as cut
from alignatt_agent.cascade.open_stream import open_stream
from alignatt_agent.config.agent_config import ModelConfig, load_config
from alignatt_agent.config.languages import language
from alignatt_agent.config.resources import find_path
from alignatt_agent.doctor import speakers
from alignatt_agent.engine import pool
from alignatt_agent.engine.memory_plan import plan
from alignatt_agent.types import SAMPLE_RATE
from lab.bench.streams import opened
from lab.gpu import dimensions
from lab.gpu.context import Context, Result, gpu_memory_used
from lab.gpu.forced import Machines, Tape, record
from lab.stand_ins import random_models
from lab.stand_ins import speech as published_speech

CONFIG = "micro-low"
"""Configuration of the recorded run: the maintained policy on the embedded models."""

CHUNKS_MS = (250, 500, 850, 1500)
STREAMS = (1, 2, 4, 8, 16, 32, 64)
REAL = "default-low"
"""Configuration of the real models, whose shares of the GPU's memory are taken."""

ROLES = ("asr", "aligner", "translation")


def chunks(context: Context) -> Result:
    """Real-time factor and stage times at chunks of several lengths, a talk after the other."""
    seconds, lengths = (8.0, CHUNKS_MS[:2]) if context.self_test else (60.0, CHUNKS_MS)
    jobs, tapes, engines, resolved = _recorded(lengths, 1 if context.self_test else 3, seconds)
    rows = []
    with machines(context, 4) as (served, memory):
        for chunk_ms in lengths:
            at = _with_chunks(resolved, chunk_ms)
            warm = served.play(engines, tapes[chunk_ms][0].copy())
            _stages(at, warm, jobs[0])
            found = [
                _stages(at, served.play(engines, tape.copy(), number), job)
                for number, (job, tape) in enumerate(zip(jobs, tapes[chunk_ms], strict=True), 1)
            ]
            rows.append({"chunk_ms": chunk_ms, **_summed(found, chunk_ms)})
    rtf = {row["chunk_ms"]: row["rtf"] for row in rows}
    tight = [role for role, taken in memory.items() if taken.get("over")]
    return {
        "rows": rows,
        "memory": memory,
        "problem": f"memory above its share: {', '.join(tight)}" if tight else "",
        "summary": f"RTF by chunk in ms: {rtf}",
    }


def streams(context: Context) -> Result:
    """Lag of many streams at once, heard by the clock, at the chunk of the configuration."""
    counts = STREAMS[:2] if context.self_test else STREAMS
    chunk_ms = 500
    jobs, tapes, engines, resolved = _recorded(
        (chunk_ms,), counts[-1], 4.0 if context.self_test else 20.0
    )
    at, chunk_s, rows = _with_chunks(resolved, chunk_ms), chunk_ms / 1000, []
    listed = tapes[chunk_ms]
    with machines(context, counts[-1]) as (served, _):
        speakers.speak(at, served.play(engines, listed[0].copy()), jobs[0])  # warms up
        for count in counts:
            players = [
                served.play(engines, tape.copy(), i) for i, tape in enumerate(listed[:count], 1)
            ]
            begin = time.perf_counter()
            starts = [begin + chunk_s * place / count for place in range(count)]
            speak = partial(speakers.speak, at)
            with ThreadPoolExecutor(count) as threads:
                crowd = list(threads.map(speak, players, jobs[:count], starts))
            seconds = time.perf_counter() - begin
            row = speakers.crowd_figures(jobs[:count], crowd, crowd, seconds, chunk_s)
            del row["identical"]  # what they say is on tape
            rows.append(row)
    kept = speakers.knee(rows)
    return {"chunk_ms": chunk_ms, "rows": rows, "summary": f"kept up with {kept} streams"}


# ------------------------------------------------------------------ engines
@contextmanager
def machines(context: Context, sequences: int) -> Iterator[tuple[Machines, dict[str, Any]]]:
    """Start the three engines of other dimensions, one after the other, and end them."""
    models, heads = _models(context)
    planned = plan(load_config(REAL), _card_bytes())
    shares = planned.shares
    served: dict[str, Any] = {}
    taken = {}
    try:
        for role in ROLES:
            before = gpu_memory_used()
            options = {"max_num_seqs": max(4, sequences), "max_model_len": 2048}
            share = context.engine(shares[role], **options)
            captured = heads if role == "translation" else ()
            begin = time.monotonic()
            served[role] = pool.start(role, models[role], captured, **share)
            spent = time.monotonic() - begin
            need = planned.needs[role]
            taken[role] = _taken(served[role], before, spent, need, shares[role])
        yield Machines(served["asr"], served["aligner"], served["translation"], heads), taken
    finally:
        for model in served.values():
            model.stop()
        for model in served.values():
            model.shutdown()


def _models(context: Context) -> tuple[dict[str, Any], Any]:
    folder = context.models
    if not context.self_test:
        models = {role: getattr(dimensions, _NAMES[role])(folder / role) for role in ROLES}
        return models, dimensions.HEADS
    sizes = {"vocab_size": 16384, "vocab_size_per_layer_input": 16384}
    paths = {
        "asr": published_speech.write_recognizer(folder / "asr"),
        "aligner": published_speech.write_aligner(folder / "aligner"),
        "translation": random_models.write("gemma4", folder / "translation", **sizes),
    }
    heads = ((0, 1), (1, 2), (2, 0), (2, 3), (3, 1), (4, 0), (4, 7), (5, 2))
    return {
        role: ModelConfig(path=str(path), dtype="float32") for role, path in paths.items()
    }, heads


_NAMES = {"asr": "recognizer", "aligner": "aligner", "translation": "translation"}


def _card_bytes() -> float:
    """Memory of the GPU; without one, that of the card that the plan is computed for."""
    if not torch.cuda.is_available():
        return 80.0 * 2**30
    return float(torch.cuda.get_device_properties(0).total_memory)


def _taken(served: Any, before: int | None, seconds: float, need: Any, share: float) -> Any:
    """Return what an engine took, beside what was planned for it."""
    found = {"start_s": round(seconds, 1), "planned_least_bytes": int(need.least)}
    after = gpu_memory_used()
    if before is None or after is None:
        size = sum(psutil.Process(pid).memory_info().rss for pid in served.pids)
        return {"bytes": size, **found}
    limit = share * _card_bytes()
    # Graphs and the context of a process come on top of what vLLM plans: a GiB is let pass.
    over = after - before > limit + 2**30
    return {"bytes": after - before, "share_bytes": int(limit), "over": over, **found}


# ------------------------------------------------------------------ the run on tape
def _recorded(
    lengths: Sequence[int], count: int, seconds: float
) -> tuple[list[Any], dict[int, list[Tape]], Any, Any]:
    """Stream the embedded models once."""
    targets = ("de", "it", "zh")
    devset = find_path("micro_models/devset")
    distinct = min(count, 12)
    jobs = speakers.excerpts(devset, targets, distinct, seconds)
    tapes: dict[int, list[Tape]] = {}
    with opened(CONFIG, targets) as (resolved, engines):
        tokenizer = AutoTokenizer.from_pretrained(resolved.checkpoints.asr.path)

        @cache
        def tokens(text: str) -> int:
            return len(tokenizer.encode(text, add_special_tokens=False))

        for chunk_ms in lengths:
            tapes[chunk_ms] = []
            for job in jobs:
                tape = Tape.blank()
                recorder = record(engines, tape, tokens)
                speakers.speak(_with_chunks(resolved, chunk_ms), recorder, job)
                tapes[chunk_ms].append(tape)
    times = -(-count // distinct)
    again = {length: (listed * times)[:count] for length, listed in tapes.items()}
    return (jobs * times)[:count], again, engines, resolved


def _with_chunks(resolved: Any, chunk_ms: int) -> Any:
    return replace(resolved, config=resolved.config.model_copy(update={"chunk_ms": chunk_ms}))


def _stages(resolved: Any, engines: Any, job: Any) -> dict[str, Any]:
    """Return the seconds of each stage of a stream, and of each of its steps."""
    audio, target = job
    source = language(resolved.config.source_language)
    stream = open_stream(resolved, engines, source, [language(target)])
    stages: Counter[str] = Counter()
    steps = []
    for chunk in [*cut(resolved, audio), None]:
        begin = time.perf_counter()
        step = (stream.finish() if chunk is None else stream.step(chunk)).only()
        steps.append(time.perf_counter() - begin)
        stages.update(step.seconds)
    return {"audio_s": len(audio) / SAMPLE_RATE, "stages": stages, "steps": steps}


def _summed(found: Sequence[dict[str, Any]], chunk_ms: int) -> dict[str, Any]:
    audio = sum(entry["audio_s"] for entry in found)
    steps = [step for entry in found for step in entry["steps"]]
    stages: Counter[str] = Counter()
    for entry in found:
        stages.update(entry["stages"])
    p50, p95 = (float(value) for value in np.percentile(steps, [50, 95]))
    return {
        "audio_s": round(audio, 1),
        "rtf": round(sum(steps) / audio, 4),
        "rtf_by_stage": {stage: round(seconds / audio, 4) for stage, seconds in stages.items()},
        "step_p50_ms": round(1000 * p50, 1),
        "step_p95_ms": round(1000 * p95, 1),
        "late_steps": sum(step > chunk_ms / 1000 for step in steps) / len(steps),
    }
