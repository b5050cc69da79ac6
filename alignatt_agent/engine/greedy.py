"""Build vLLM's greedy requests, and read the results of the engine and its workers."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from alignatt_agent.engine.row_requests import EXTRA
from alignatt_agent.engine.served_model import ServedModel
from alignatt_agent.types import EngineError, FloatArray


def greedy(max_tokens: int, stops: frozenset[int], asked: dict[str, Any] | None = None) -> Any:
    """Build vLLM's ``SamplingParams`` for a greedy request that ends at ``stops``.

    ``asked`` contains fields of ``CaptureRequest`` for the workers.
    """
    from vllm.sampling_params import RequestOutputKind, SamplingParams

    return SamplingParams(
        temperature=0.0,
        max_tokens=max_tokens,
        stop_token_ids=sorted(stops),
        ignore_eos=not stops,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
        extra_args={EXTRA: asked} if asked else None,
    )


def stop_ids(model: ServedModel) -> frozenset[int]:
    """Return the ids that end a turn, from the generation configuration and the tokenizer."""
    written = model.config.try_get_generation_config() or {}
    return joined_ids(written.get("eos_token_id"), model.tokenizer().eos_token_id)


def joined_ids(*values: int | list[int] | None) -> frozenset[int]:
    """Join single ids and lists of ids into a set."""
    lists = ([value] if isinstance(value, int) else value or [] for value in values)
    return frozenset(itertools.chain.from_iterable(lists))


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
    shapes, data, tokens, seconds, agreed, rejected = zip(*answers, strict=True)
    pairs = zip(shapes, data, strict=True)
    parts = [np.frombuffer(rows, np.float32).reshape(shape) for shape, rows in pairs if shape]
    if len(found := {part.shape: None for part in parts}) > 1:
        listed = f"{' and '.join(map(str, found))}; expected equal shapes"
        raise EngineError(f"{model.name}: workers returned rows of different shapes: {listed}")
    rows: FloatArray | None = sum(parts[1:], parts[0]) if parts else None
    next_token = next((token for token in tokens if token is not None), None)
    # Ranks compute in parallel, so the slowest rank determines the time.
    return CaptureResult(rows, next_token, max(seconds), max(agreed), any(rejected))
