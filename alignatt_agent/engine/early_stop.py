"""End a request in the worker, before the next token is sampled.

The worker forces the turn to end when the gate rejects a token or the model decodes an unexpected
token, because later tokens would be discarded. vLLM has two model runners with different interfaces
for logits processors.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from vllm.v1.sample.logits_processor import AdapterLogitsProcessor
from vllm.v1.worker.gpu.sample.logits_processor.interface import LogitsProcessor as V2Processor

from alignatt_agent.engine.row_requests import EXTRA, REQUESTS


def processor_name(use_v2_model_runner: bool) -> str:
    """Return the name by which vLLM loads the logits processor for a model runner."""
    processor = EarlyStopV2 if use_v2_model_runner else EarlyStopV1
    return f"{__name__}:{processor.__name__}"


class EarlyStopV1(AdapterLogitsProcessor):  # type: ignore[misc]
    """Logits processor for model runner V1, which uses one function per request."""

    def is_argmax_invariant(self) -> bool:
        """Return ``False``, because the processor may force the end of a turn."""
        return False

    def new_req_logits_processor(
        self, params: Any
    ) -> Callable[[Sequence[int], torch.Tensor], torch.Tensor] | None:
        """Return the processor of a request, or ``None`` if the request cannot end early."""
        key = key_of(params)
        if key is None:
            return None
        stops = list(params.stop_token_ids)
        return lambda _, logits: end_if_over(key, stops, logits)


class EarlyStopV2(V2Processor):  # type: ignore[misc]
    """Logits processor for model runner V2, which passes whole batches; never tested on a GPU."""

    def __init__(self, vllm_config: Any, req_states: Any) -> None:
        super().__init__(vllm_config, req_states)
        self._requests_by_slot: dict[int, tuple[str, list[int]]] = {}

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        """Replace the request of a slot; a request that cannot end early is not stored."""
        self._requests_by_slot.pop(req_idx, None)
        key = key_of(sampling_params)
        if key is not None:
            self._requests_by_slot[req_idx] = (key, list(sampling_params.stop_token_ids))
        return key is not None

    def apply(self, logits: torch.Tensor, ctx: Any) -> torch.Tensor:
        """End requests that are over; without speculative decoding, every request has one row."""
        for row, slot in enumerate(ctx.idx_mapping_np.tolist()):
            if slot in self._requests_by_slot:
                key, stops = self._requests_by_slot[slot]
                end_if_over(key, stops, logits[row])
        return logits


def key_of(params: Any) -> str | None:
    """Return the key of a request with a gate or expected tokens, or ``None``."""
    if params is None:
        return None
    fields = (params.extra_args or {}).get(EXTRA)
    # A request for rows only is never ended early.
    if not fields or not (fields.get("gate") or fields.get("expected")):
        return None
    key: str = fields["key"]
    return key


def end_if_over(key: str, stops: Sequence[int], logits: torch.Tensor) -> torch.Tensor:
    """If the request must end, change ``logits``, ``[vocabulary]``, in place to end the turn.

    If the scan rejected a sampled token, the next greedy token is stored for the host. If the model
    ends the turn itself, ``logits`` do not change.
    """
    request = REQUESTS.get(key)
    if request is None or not request.over:
        return logits
    if not request.over_before_sampling:
        token = int(logits.argmax())
        if token in stops:
            return logits
        if request.next_token is None:  # asynchronous scheduling runs one more step
            request.next_token = token
    # The sampler can then only choose the stop id.
    logits.fill_(float("-inf"))
    logits[stops[0]] = 0.0
    return logits
