"""vLLM's greedy requests, and what comes back."""

from __future__ import annotations

from typing import Any

import numpy as np

from alignatt_agent.types import FloatArray


def greedy(max_tokens: int, stops: frozenset[int], extra: dict[str, Any] | None = None) -> Any:
    """Build vLLM's ``SamplingParams`` of a greedy request that ends at ``stops``."""
    from vllm.sampling_params import RequestOutputKind, SamplingParams

    return SamplingParams(
        temperature=0.0,
        max_tokens=max_tokens,
        stop_token_ids=sorted(stops),
        ignore_eos=not stops,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
        extra_args=extra or None,
    )


def logprobs(output: Any) -> FloatArray:
    """Return the log-probability of every sampled id."""
    ids, places = output.outputs[0].token_ids, output.outputs[0].logprobs
    values = [place[token].logprob for token, place in zip(ids, places, strict=True)]
    return np.array(values, np.float32)


def strip_stop(output: Any, stops: frozenset[int]) -> tuple[list[int], bool]:
    """Return the generated ids without a stop id, and whether the turn ended."""
    completion = output.outputs[0]
    tokens = list(completion.token_ids)
    ended = completion.finish_reason == "stop"
    while tokens and tokens[-1] in stops:
        tokens.pop()
        ended = True
    return tokens, ended
