"""Build vLLM's greedy requests, and read the results of the engine and its workers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from alignatt_agent.engine.row_requests import EXTRA
from alignatt_agent.engine.served_model import ServedModel
from alignatt_agent.types import EngineError, FloatArray

_EXCLUSION = -100.0
"""Bias that keeps an id from being sampled, the lowest that vLLM accepts."""


def greedy(
    max_tokens: int,
    stops: frozenset[int],
    capture_fields: dict[str, Any] | None = None,
    excluded: Sequence[int] = (),
) -> Any:
    """Build vLLM's ``SamplingParams`` for a greedy request that ends at ``stops``.

    ``capture_fields`` contains fields of ``CaptureRequest`` for the workers. ``excluded`` contains
    ids that are not sampled.
    """
    from vllm.sampling_params import RequestOutputKind, SamplingParams

    extra_args = None
    if capture_fields:
        extra_args = {EXTRA: capture_fields}
    logit_bias = None
    if excluded:
        logit_bias = dict.fromkeys(excluded, _EXCLUSION)
    return SamplingParams(
        temperature=0.0,
        max_tokens=max_tokens,
        stop_token_ids=sorted(stops),
        ignore_eos=not stops,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
        extra_args=extra_args,
        logit_bias=logit_bias,
    )


def stop_ids(model: ServedModel) -> frozenset[int]:
    """Return the ids that end a turn, from the generation configuration and the tokenizer."""
    written = model.config.try_get_generation_config() or {}
    return joined_ids(written.get("eos_token_id"), model.tokenizer().eos_token_id)


def joined_ids(*values: int | list[int] | None) -> frozenset[int]:
    """Join single ids and lists of ids into a set."""
    joined: set[int] = set()
    for value in values:
        if isinstance(value, int):
            joined.add(value)
        elif value is not None:
            joined.update(value)
    return frozenset(joined)


def strip_stop(output: Any, stops: frozenset[int]) -> tuple[list[int], bool]:
    """Return the generated ids without the final stop ids, and whether the turn ended."""
    completion = output.outputs[0]
    tokens = list(completion.token_ids)
    ended = completion.finish_reason == "stop"
    while tokens and tokens[-1] in stops:
        tokens.pop()
        ended = True
    return tokens, ended


@dataclass(frozen=True, slots=True)
class CaptureResult:
    """Rows and verification result of one request, combined from all workers.

    Attributes:
        rows: ``[rows, heads, 2 + S]``; ``None`` if no worker captures a head.
        next_token: the next greedy token if the request was ended early; ``None`` if it was not, or
            if the token is unknown.
        replay_s: seconds spent on computing the rows.
        agreed: number of verified expected tokens.
        rejected: whether the gate rejected a token.
    """

    rows: FloatArray | None
    next_token: int | None
    replay_s: float
    agreed: int
    rejected: bool


def fetch(model: ServedModel, key: str) -> CaptureResult:
    """Fetch the result of a finished request, and remove it from the workers."""
    answers = model.ask_workers("alignatt_fetch", key)
    if None in answers:
        raise EngineError(f"{model.name}: a worker has no result for the request")
    parts: list[FloatArray] = []
    next_token: int | None = None
    replay_s = 0.0
    agreed = 0
    rejected = False
    for shape, data, rank_next_token, rank_s, rank_agreed, rank_rejected in answers:
        if shape:  # the rank captures heads
            parts.append(np.frombuffer(data, np.float32).reshape(shape))
        if next_token is None:
            next_token = rank_next_token
        # Ranks compute in parallel, so the slowest rank determines the time.
        replay_s = max(replay_s, rank_s)
        agreed = max(agreed, rank_agreed)
        rejected = rejected or rank_rejected
    shapes = list(dict.fromkeys(part.shape for part in parts))
    if len(shapes) > 1:
        listed = " and ".join(map(str, shapes))
        raise EngineError(
            f"{model.name}: workers returned rows of different shapes: {listed}; expected equal "
            "shapes"
        )
    rows: FloatArray | None = None
    if parts:
        # In a rank's rows, the heads of other ranks are zero.
        rows = sum(parts[1:], parts[0])
    return CaptureResult(rows, next_token, replay_s, agreed, rejected)
