"""The vLLM side of a parity run: one engine in a process of its own, with or without capture."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from alignatt_agent.checks.parity_cases import Ask, Call, Head, Situations
from alignatt_agent.types import AttentionRows

LOGPROBS = 5
"""Log-probabilities that come with every token."""


@dataclass(frozen=True)
class Job:
    """One engine and what it is asked.

    Attributes:
        path: checkpoint.
        dtype: computation type.
        arguments: further vLLM arguments.
        heads: heads to capture; none for an engine without our worker.
        stops: ids that end a turn.
        situations: the requests.
    """

    path: Path
    dtype: Literal["float32", "bfloat16"]
    arguments: Mapping[str, Any]
    heads: tuple[Head, ...]
    stops: frozenset[int]
    situations: Situations


@dataclass(frozen=True)
class Answer:
    """What came back for one request.

    Attributes:
        sampled: every sampled id, with the one that ended the turn.
        logprobs: for every sampled id the most likely ids with their log-probabilities.
        cached: prompt tokens that came out of the prefix cache.
        token_ids: ids of the draft, those with a row.
        ended: whether the model closed the turn by itself.
        rows: rows of the draft, where they were asked for.
    """

    sampled: tuple[int, ...]
    logprobs: tuple[tuple[tuple[int, float], ...], ...]
    cached: int
    token_ids: tuple[int, ...]
    ended: bool
    rows: AttentionRows | None


def run(job: Job) -> dict[str, list[Answer]]:
    """Start an engine and run all situations, one after another; answers come in order."""
    # In this process nothing runs beside the engine, so every run forms the same batches.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    from vllm import LLM

    from alignatt_agent.config.agent_config import ModelConfig
    from alignatt_agent.engine.options import engine_arguments

    model = ModelConfig(path=str(job.path), dtype=job.dtype, engine=dict(job.arguments))
    engine = LLM(**engine_arguments("translation", model, job.heads), seed=0)
    return {
        name: [
            answer
            for number, call in enumerate(calls)
            for answer in _call(engine, job, call, f"{name}-{number}")
        ]
        for name, calls in job.situations.items()
    }


def _call(engine: Any, job: Job, call: Call, name: str) -> list[Answer]:
    from alignatt_agent.engine.drafts import greedy

    if call.cold:
        engine.reset_prefix_cache()
    sampling = []
    keys = [f"{name}-{number}" for number in range(len(call.asks))]
    for ask, key in zip(call.asks, keys, strict=True):
        spare = 1 if ask.readout is not None and ask.readout.row == "emitted" else 0
        extra = _wish(key, job, ask) if job.heads else None
        sampling.append(greedy(ask.max_tokens + spare, job.stops, extra))
        sampling[-1].logprobs = LOGPROBS
    prompts = [{"prompt_token_ids": list(ask.case.prompt.token_ids)} for ask in call.asks]
    outputs = engine.generate(prompts, sampling, use_tqdm=False)
    return [
        _answer(engine, job, key, ask, output)
        for key, ask, output in zip(keys, call.asks, outputs, strict=True)
    ]


def _wish(key: str, job: Job, ask: Ask) -> dict[str, Any] | None:
    from alignatt_agent.engine.row_requests import EXTRA, wish

    if ask.readout is None:
        return None
    prompt = ask.case.prompt
    length = len(prompt.token_ids)
    return {
        EXTRA: wish(
            key=key,
            start=prompt.source_start,
            end=prompt.source_end,
            prompt=length,
            first=length - (ask.readout.row == "predicting"),
            count=ask.max_tokens,
            heads=[job.heads.index(head) for head in ask.readout.heads],
        )
    }


def _answer(engine: Any, job: Job, key: str, ask: Ask, output: Any) -> Answer:
    from alignatt_agent.engine.drafts import strip_stop

    completion = output.outputs[0]
    tokens, ended = strip_stop(output, job.stops)
    if ask.readout is not None and ask.readout.row == "emitted" and not ended:
        del tokens[-1:]  # its row does not exist yet
    rows = _fetch(engine, key, len(tokens)) if job.heads and ask.readout is not None else None
    return Answer(
        sampled=tuple(completion.token_ids),
        logprobs=tuple(
            tuple(sorted((token, entry.logprob) for token, entry in step.items()))
            for step in completion.logprobs
        ),
        cached=output.num_cached_tokens or 0,
        token_ids=tuple(tokens),
        ended=ended,
        rows=rows,
    )


def _fetch(engine: Any, key: str, tokens: int) -> AttentionRows:
    from alignatt_agent.engine.row_requests import PROMPT, SOURCE, SUFFIX

    parts = engine.collective_rpc("alignatt_fetch", args=(key,))
    total = sum(np.frombuffer(data, np.float32).reshape(shape) for shape, data, *_ in parts)
    total = np.asarray(total, np.float32)[:tokens]
    if len(total) < tokens:
        raise RuntimeError(f"{len(total)} attention rows came for {tokens} tokens")
    return AttentionRows(
        source=np.ascontiguousarray(total[..., SOURCE]),
        prompt=np.ascontiguousarray(total[..., PROMPT]),
        suffix=np.ascontiguousarray(total[..., SUFFIX]),
    )
