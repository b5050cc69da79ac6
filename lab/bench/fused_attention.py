"""Rows from Transformers' fused attention (*qk-fast*), for the benchmark and the parity check.

The fused function returns no weights, so the required rows are computed again from its queries
and keys.
"""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from alignatt_agent.engine.transformers_engine import cut_rows
from alignatt_agent.types import AttentionRows, Prompt
from alignatt_agent.types.engines import Readout
from lab.reference import Reference, RowRecorder

QK_FAST = "alignatt_qk_fast"
"""Name of our attention function in Transformers."""

Seam = Literal["eager", "sdpa"]
"""Attention functions of Transformers from which rows are read."""


class FusedRecorder(RowRecorder):
    """Computes the wanted rows of each pass from queries and keys."""

    def run(self, ids: list[int], **options: Any) -> Any:
        """Run a forward pass whose attention function calls this recorder."""
        self._rows_of_pass: dict[tuple[int, int], torch.Tensor] = {}
        # The recorder is an argument that all layers pass on.
        output = self._engine._forward(ids, recorder=self, **options)
        rows = []
        if self.wanted:
            rows = [self._rows_of_pass[head] for head in self._readout.heads]
        self._add(ids, rows)
        return output

    def note_layer(
        self,
        layer: int,
        query: torch.Tensor,  # [1, heads, new, D]
        key: torch.Tensor,  # [1, key heads, K, D]
        mask: torch.Tensor | None,
        scale: float,
        sinks: torch.Tensor | None,
    ) -> None:
        """Compute the rows of one layer's wanted heads, each ``[wanted, K]``."""
        heads = [head for head_layer, head in self._readout.heads if head_layer == layer]
        if not self.wanted or not heads:
            return
        # Several query heads share one key head.
        groups = query.shape[1] // key.shape[1]
        last = query[:, heads, query.shape[2] - self.wanted :].float()
        keys = key[:, [head // groups for head in heads]].float()
        head_sinks = None if sinks is None else sinks[heads]
        rows = _weights(last, keys, mask, scale, head_sinks)[0]
        for head, row in zip(heads, rows, strict=True):
            self._rows_of_pass[layer, head] = row


class FusedEngine(Reference):
    """The reference with fused attention."""

    attention = QK_FAST
    recorder = FusedRecorder

    @torch.inference_mode()
    def rows(self, prompt: Prompt, token_ids: Sequence[int], readout: Readout) -> AttentionRows:
        """Return the rows of ``token_ids`` after ``prompt``, in one teacher-forced pass."""
        recorder, ids = FusedRecorder(self, readout), [*prompt.token_ids, *token_ids]
        recorder.wanted = len(token_ids)
        recorder.run(ids if readout.row == "emitted" else ids[:-1], use_cache=False)
        return cut_rows(recorder.rows(len(ids)), prompt)


ENGINES: dict[Seam, type[Reference]] = {"eager": Reference, "sdpa": FusedEngine}


def _weights(
    query: torch.Tensor,  # [1, heads, queries, D], the last of the pass
    key: torch.Tensor,  # [1, heads, K, D]
    mask: torch.Tensor | None,  # [1, 1, new, K], true where seen; None is causal
    scale: float,
    sinks: torch.Tensor | None,  # [heads], scores that receive mass but have no position
) -> torch.Tensor:
    """Return ``[1, heads, queries, K]``: a float32 softmax over all visible positions."""
    queries, positions = query.shape[2], key.shape[2]
    scores = query @ key.transpose(2, 3) * scale
    if mask is None:
        everything = torch.ones(queries, positions, dtype=torch.bool, device=key.device)
        seen = everything.tril(positions - queries)
    else:
        seen = mask[0, 0, mask.shape[2] - queries :, :positions]
    scores = scores.masked_fill(~seen, float("-inf"))
    if sinks is None:
        return torch.softmax(scores, -1, dtype=torch.float32)
    extra = sinks.to(scores.dtype)[:, None, None].expand(*scores.shape[:-1], 1)
    return torch.softmax(torch.cat([scores, extra], -1), -1, dtype=torch.float32)[..., :-1]


def _attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    recorder: FusedRecorder | None = None,
    s_aux: torch.Tensor | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Call Transformers' SDPA, and pass the arguments to a recorder."""
    if recorder is not None:
        recorder.note_layer(module.layer_idx, query, key, attention_mask, scaling, s_aux)
    if s_aux is not None:  # sinks, which torch's SDPA does not support
        groups = query.shape[1] // key.shape[1]
        weights = _weights(query, repeat_kv(key, groups), attention_mask, scaling, s_aux)
        weights = weights.to(query.dtype)
        return (weights @ repeat_kv(value, groups)).transpose(1, 2).contiguous(), None
    output, _ = sdpa_attention_forward(
        module, query, key, value, attention_mask, scaling=scaling, **options
    )
    return output, None


AttentionInterface.register(QK_FAST, _attend)
AttentionMaskInterface.register(QK_FAST, sdpa_mask)
