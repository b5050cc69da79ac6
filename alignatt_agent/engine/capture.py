"""Read attention rows (Eq. 2 of the paper) from a running vLLM worker; see docs/engine.md.

Rows are computed in every step: while a request decodes, vLLM frees the blocks that leave a sliding
window.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from vllm.config import VllmConfig
from vllm.distributed import get_tensor_model_parallel_rank
from vllm.forward_context import get_forward_context
from vllm.v1.attention.backend import AttentionType

from alignatt_agent.engine import supported_modes
from alignatt_agent.engine.attention_rows import RowComputer, gather
from alignatt_agent.engine.draft_verification import read_greedy
from alignatt_agent.engine.key_layout import Keys
from alignatt_agent.engine.row_requests import SOURCE, CaptureRequest, Ledger, WantedRow
from alignatt_agent.types import FloatArray

Found = tuple[list[int], bytes, int | None, float, int, bool]
"""The result of ``Capture.fetch``. Remote calls can return only built-in types."""


@dataclass
class Tap:
    """Calibrated heads of one layer, on this rank.

    Attributes:
        owner: the layer that owns the keys; it differs from ``layer`` if layers share a cache.
        heads: query heads on this rank.
        columns: indices of the heads in the engine's list of heads.
        stage: queries of the current step, ``[tokens, heads, D]``.
        key_heads: key head of each query head, ``[heads]``.
        calls: number of times that the wrapped ``forward`` ran as Python code.
    """

    layer: Any
    owner: Any
    heads: torch.Tensor
    columns: list[int]
    stage: torch.Tensor
    key_heads: torch.Tensor
    group: int = -1
    keys: Keys | None = None
    calls: int = 0


class Capture:
    """Captures attention rows and verifies expected tokens in one worker with a loaded model.

    ``heads`` are numbered across tensor-parallel ranks. Without heads, only tokens are verified.
    """

    def __init__(
        self, config: VllmConfig, heads: Sequence[tuple[int, int]], device: torch.device
    ) -> None:
        self._config = config
        self._heads = [(int(layer), int(head)) for layer, head in heads]
        self._tokens = config.scheduler_config.max_num_batched_tokens
        self._slots = torch.full((self._tokens,), -1, dtype=torch.int64, device=device)
        # A CUDA graph records the copies once, so they run even if no rows are needed.
        self._always = device.type != "cpu"
        self._staging = False
        self._staged = False
        self._block_sizes: list[int] = []
        self._computer: RowComputer | None = None
        self.ledger = Ledger()
        self.taps = self._find_taps(device)
        # Computed rows contain the heads of this rank, layer by layer.
        self._columns: dict[int, int] = {}
        for tap in self.taps:
            for head in tap.columns:
                self._columns[head] = len(self._columns)
        # A gate needs all heads, but ranks do not exchange heads, so they cannot end a draft early.
        self._all_heads = config.parallel_config.tensor_parallel_size == 1
        for tap in self.taps:
            self._wrap(tap, with_slots=tap is self.taps[0])

    # ------------------------------------------------------------------ installation
    def _find_taps(self, device: torch.device) -> list[Tap]:
        context = self._config.compilation_config.static_forward_context
        layers = _decoder_layers(context)
        taps = []
        for number in sorted({layer for layer, _ in self._heads}):
            if number not in layers:
                raise ValueError(
                    f"the model has no attention layer {number}; expected one of {sorted(layers)}"
                )
            layer = layers[number]
            supported_modes.check_layer(layer)
            columns, rank_heads = self._heads_of_this_rank(number, layer.num_heads)
            if not columns:
                continue
            owner = layer
            if layer.kv_sharing_target_layer_name:
                owner = context[layer.kv_sharing_target_layer_name]
            heads = torch.tensor(rank_heads, device=device)
            stage = torch.zeros(
                (self._tokens, len(columns), layer.head_size),
                dtype=self._config.model_config.dtype,
                device=device,
            )
            # Grouped-query attention: consecutive query heads share a key head.
            queries_per_key = layer.num_heads // layer.num_kv_heads
            taps.append(
                Tap(
                    layer=layer,
                    owner=owner,
                    heads=heads,
                    columns=columns,
                    stage=stage,
                    key_heads=heads // queries_per_key,
                )
            )
        return taps

    def _heads_of_this_rank(self, layer_number: int, count: int) -> tuple[list[int], list[int]]:
        """Select the heads of a layer with ``count`` query heads on each rank.

        Returns:
            The indices of the heads in the engine's list, and their numbers on this rank.
        """
        first = get_tensor_model_parallel_rank() * count
        columns = []
        rank_heads = []
        for column, (layer, head) in enumerate(self._heads):
            if layer == layer_number and first <= head < first + count:
                columns.append(column)
                rank_heads.append(head - first)
        return columns, rank_heads

    def _wrap(self, tap: Tap, with_slots: bool) -> None:
        original = tap.layer.impl.forward
        name = tap.layer.layer_name

        def forward(layer: Any, query: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if self._staging or self._always:
                tap.calls += 1
                count = min(query.shape[0], self._tokens)
                torch.index_select(query[:count], 1, tap.heads, out=tap.stage[:count])
                if with_slots:
                    self._stage_slots(name)
            return original(layer, query, *args, **kwargs)

        tap.layer.impl.forward = forward

    def _stage_slots(self, layer_name: str) -> None:
        """Copy the cache slots that the step writes; without a slot mapping, do nothing."""
        slot_mapping = get_forward_context().slot_mapping
        if not isinstance(slot_mapping, dict):
            return
        slots = slot_mapping.get(layer_name)
        if slots is not None:
            count = min(slots.shape[0], self._tokens)
            self._slots[:count].copy_(slots[:count])
            self._staged = True

    def bind(self, cache: Any) -> None:
        """Read the layout of the allocated paged cache from vLLM's ``KVCacheConfig``."""
        groups = cache.kv_cache_groups
        self._block_sizes = [group.kv_cache_spec.block_size for group in groups]
        group_of: dict[str, int] = {}
        for number, group in enumerate(groups):
            for layer_name in group.layer_names:
                group_of.setdefault(layer_name, number)
        readers: dict[str, Keys] = {}
        for tap in self.taps:
            name = tap.owner.layer_name
            tap.group = group_of[name]
            # Layers that share a cache also share its reader.
            if name not in readers:
                readers[name] = Keys(tap.owner)
            tap.keys = readers[name]

    # ------------------------------------------------------------------ one step
    def begin(self, scheduled: Any) -> list[WantedRow]:
        """Prepare a step before its forward pass, and return the rows to compute."""
        rows = self.ledger.schedule(scheduled)
        self._staging = bool(rows)
        self._staged = self._always
        if rows and self._always:
            # Slots of an earlier step must not match a row of this one.
            self._slots[: scheduled.total_num_scheduled_tokens].fill_(-1)
        return rows

    @torch.inference_mode()
    def verify(self, runner: Any, counts: Mapping[str, int]) -> None:
        """Compare expected tokens with the model's tokens, before ``finish`` is called."""
        if self.ledger.due:
            read_greedy(runner, counts, self.ledger.due)

    @torch.inference_mode()
    def finish(self, wanted: list[WantedRow], total: int) -> None:
        """Compute the requested rows of a step with ``total`` tokens, before tokens are sampled."""
        if not self.taps:
            return
        begin = time.perf_counter()
        if self._computer is None or not self._computer.serves(wanted):
            self._computer = RowComputer(wanted, self.taps, self._block_sizes, self._slots)
        rows = self._computer(wanted, total)
        if not self._staged or not all(tap.calls for tap in self.taps):
            # The host rejects rows that are not finite, so it reports a missing query.
            rows[:] = float("nan")
        for i, wanted_row in enumerate(wanted):
            request = wanted_row.request
            number = wanted_row.position - request.first
            request.rows[number] = (rows, i)
            if request.gate is not None and self._all_heads:
                width = request.end - request.start + 2
                heads = [self._columns[head] for head in request.heads]
                gathered = gather([(rows, i)], heads, width)
                request.scan(number, gathered[0, :, SOURCE])
        share = (time.perf_counter() - begin) / len(wanted)
        for wanted_row in wanted:
            wanted_row.request.replay_s += share

    # ------------------------------------------------------------------ results
    def fetch(self, key: str) -> Found | None:
        """Remove and return the result of a request, or ``None`` if the request is unknown.

        Returns:
            The shape and float32 bytes of the rows, ``[rows, heads, 2 + S]``, and the fields of
            ``CaptureResult`` after ``rows``. Heads of other ranks are zero. Uncaptured rows at the
            end are missing. On a rank without captured heads, the shape is empty.
        """
        request = self.ledger.take(key)
        if request is None:
            return None
        next_token = request.next_token
        agreed = 0
        if request.expected is not None:
            agreed = request.expected.agreed
            if request.expected.over:
                next_token = request.expected.next_token
        if not self.taps:
            return [], b"", next_token, 0.0, agreed, request.rejected
        result = self._rows_of(request)
        shape = list(result.shape)
        return shape, result.tobytes(), next_token, request.replay_s, agreed, request.rejected

    def _rows_of(self, request: CaptureRequest) -> FloatArray:
        """Return the rows of a request, ``[rows, heads, 2 + S]``; see ``fetch``."""
        count = len(request.rows)
        width = request.end - request.start + 2
        result: FloatArray = np.zeros((count, len(request.heads), width), np.float32)
        axes = []  # indices of this rank's heads in the request
        columns = []  # indices of the same heads in computed rows
        for axis, head in enumerate(request.heads):
            if head in self._columns:
                axes.append(axis)
                columns.append(self._columns[head])
        if not axes or not count:
            return result
        # The host rejects rows that are not finite, so it reports a gap between captured rows.
        result[:, axes] = np.nan
        captured = [row for row in range(count) if row in request.rows]
        computed = [request.rows[row] for row in captured]
        result[np.ix_(captured, axes)] = gather(computed, columns, width)
        return result


def _decoder_layers(layers_by_name: Mapping[str, Any]) -> dict[int, Any]:
    """Return the attention layers of the text decoder by number."""
    layers: dict[int, Any] = {}
    for name, layer in layers_by_name.items():
        if not supported_modes.is_decoder_attention(name, layer, AttentionType.DECODER):
            continue
        number = supported_modes.layer_number(name)
        if number in layers:
            raise NotImplementedError(
                f"layers {layers[number].layer_name!r} and {name!r} have the same number"
            )
        layers[number] = layer
    return layers
