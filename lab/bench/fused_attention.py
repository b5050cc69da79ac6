"""Rows out of Transformers' fused attention (*qk-fast*), which the bench and parity compare.

Queries and keys of the wanted layers are noted after RoPE, and the wanted rows are recomputed from
them when the draft is complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, Literal

import torch
from torch.nn.functional import pad
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from alignatt_agent.engine.transformers_engine import RowRecorder, TransformersEngine
from alignatt_agent.types.engines import Readout

QK_FAST = "alignatt_qk_fast"
"""Name under which Transformers knows our attention function."""

Seam = Literal["eager", "sdpa"]
"""Transformers' attention functions that rows are read from."""


class FusedRecorder(RowRecorder):
    """Recomputes the wanted rows from queries and keys."""

    def __init__(self, readout: Readout, layers: Sequence[int]) -> None:
        super().__init__(readout, layers)
        self._columns: dict[int, list[int]] = {}
        for column, (layer, _) in enumerate(readout.heads):
            self._columns.setdefault(layer, []).append(column)
        self._notes = {
            layer: LayerNotes([readout.heads[column][1] for column in columns])
            for layer, columns in self._columns.items()
        }

    def note_layer(self, layer: int, *states: Any) -> None:
        """Keep what is needed of one layer's attention, when the layer is wanted."""
        if layer in self._notes:
            self._notes[layer].note(self.wanted, *states)

    def run(self, model: Any, **inputs: Any) -> Any:
        """Run a forward pass whose attention function of this thread writes here."""
        token = _recorder.set(self)
        try:
            return model(**inputs)
        finally:
            _recorder.reset(token)

    def rows(self, length: int) -> torch.Tensor:
        """Return ``[rows, heads, length]``, see ``RowRecorder``."""
        parts = {layer: notes.rows(length).cpu() for layer, notes in self._notes.items()}
        first = next(iter(parts.values()))
        result = torch.zeros(len(first), sum(map(len, self._columns.values())), length)
        for layer, columns in self._columns.items():
            result[:, columns] = parts[layer]
        return result


class FusedEngine(TransformersEngine):
    """The reference with fused attention."""

    attention = QK_FAST
    recorder = FusedRecorder


ENGINES: dict[Seam, type[TransformersEngine]] = {"eager": TransformersEngine, "sdpa": FusedEngine}


class LayerNotes:
    """Queries and keys of the wanted heads of one layer."""

    def __init__(self, heads: list[int]) -> None:
        self._heads = heads
        self._queries: list[torch.Tensor] = []
        self._keys: list[torch.Tensor] = []
        self._seen: list[tuple[int, torch.Tensor]] = []
        self._scale, self._cap, self._length = 1.0, 0.0, 0
        self._sinks: torch.Tensor | None = None

    def note(
        self,
        wanted: int,
        query: torch.Tensor,  # [1, heads, new, D]
        key: torch.Tensor,  # [1, key heads, K, D], the new positions last
        mask: torch.Tensor | None,  # [1, 1, new, K], true where seen; None is causal
        scale: float | None,
        cap: float | None,
        sinks: torch.Tensor | None,  # [heads], scores that take mass and have no position
    ) -> None:
        """Keep the new keys and the last ``wanted`` queries of one pass."""
        new, known = query.shape[2], key.shape[2]
        groups = query.shape[1] // key.shape[1]
        self._length += new
        self._scale = query.shape[-1] ** -0.5 if scale is None else scale
        self._cap = cap or 0.0
        self._sinks = None if sinks is None else sinks[self._heads].float()
        self._keys.append(key[0, [head // groups for head in self._heads], known - new :])
        if not wanted:
            return
        self._queries.append(query[0, self._heads, new - wanted :])
        seen = torch.ones(wanted, known, dtype=torch.bool, device=key.device)
        if mask is None:
            seen = seen.tril(known - wanted)
        else:
            part = mask[0, 0, new - wanted :, :known]
            seen = part if part.dtype == torch.bool else part == 0
        self._seen.append((self._length - known, seen))

    def rows(self, length: int) -> torch.Tensor:
        """Return ``[rows, heads, length]``: a softmax over all that each query sees."""
        keys = torch.cat(self._keys, 1).float()
        if not self._queries:
            return torch.zeros(0, len(self._heads), length)
        scores = torch.cat(self._queries, 1).float() @ keys.transpose(1, 2) * self._scale
        if self._cap:
            scores = torch.tanh(scores / self._cap) * self._cap
        visible = torch.zeros(scores.shape[1:], dtype=torch.bool, device=scores.device)
        row = 0
        for begin, seen in self._seen:
            visible[row : row + len(seen), begin : begin + seen.shape[1]] = seen
            row += len(seen)
        rows = _weights(scores.masked_fill(~visible, float("-inf")), self._sinks)
        return pad(rows, (0, length))[..., :length].transpose(0, 1)


def _weights(scores: torch.Tensor, sinks: torch.Tensor | None) -> torch.Tensor:
    """Softmax of ``[..., heads, queries, positions]``, of which ``[heads]`` sinks take a share."""
    if sinks is None:
        return torch.softmax(scores, -1, dtype=torch.float32)
    extra = sinks.to(scores.dtype)[:, None, None].expand(*scores.shape[:-1], 1)
    return torch.softmax(torch.cat([scores, extra], -1), -1, dtype=torch.float32)[..., :-1]


_recorder: ContextVar[FusedRecorder | None] = ContextVar("alignatt_recorder", default=None)


def _attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    softcap: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Transformers' SDPA, with what a recorder wants noted on the way."""
    sinks = options.pop("s_aux", None)
    recorder = _recorder.get()
    if recorder is not None:
        recorder.note_layer(module.layer_idx, query, key, attention_mask, scaling, softcap, sinks)
    if softcap or sinks is not None:
        return _by_hand(query, key, value, attention_mask, scaling, softcap, sinks), None
    options.pop("output_attentions", None)
    output, _ = sdpa_attention_forward(
        module, query, key, value, attention_mask, scaling=scaling, **options
    )
    return output, None


def _by_hand(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float | None,
    cap: float | None,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """Attention with squashed scores or sinks, which torch's SDPA does not have."""
    groups, (new, known) = query.shape[1] // key.shape[1], (query.shape[2], key.shape[2])
    key, value = repeat_kv(key, groups), repeat_kv(value, groups)
    scores = query @ key.transpose(2, 3) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if cap:
        scores = torch.tanh(scores / cap) * cap
    if mask is None:
        mask = torch.ones(new, known, dtype=torch.bool, device=key.device).tril(known - new)
    weights = _weights(scores.masked_fill(~mask, float("-inf")), sinks)
    return (weights.to(query.dtype) @ value).transpose(1, 2).contiguous()


AttentionInterface.register(QK_FAST, _attend)
AttentionMaskInterface.register(QK_FAST, sdpa_mask)
