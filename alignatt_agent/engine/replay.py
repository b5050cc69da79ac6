"""Attention rows from queries and keys (Eq. 2) with tensor operations.

``M`` rows (one per query), ``h`` heads of one layer, ``H`` heads of all layers, ``L`` context
positions, ``S`` source tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from alignatt_agent.engine.batch import Batch, IntArray
from alignatt_agent.engine.row_requests import WantedRow
from alignatt_agent.types import FloatArray


def hidden_positions(positions: torch.Tensor, length: int, window: int | None) -> torch.Tensor:
    """Mark what each query cannot see, ``[M, 1, L]``: the future and what left the window.

    Args:
        positions: ``[M]`` position of each query.
        length: number of context positions ``L``.
        window: a query sees itself and the ``window - 1`` positions before it.
    """
    behind = positions[:, None, None] - torch.arange(length, device=positions.device)
    hidden = behind < 0
    if window is not None:
        hidden |= behind >= window
    return hidden


def probabilities(
    queries: torch.Tensor,
    keys: torch.Tensor,
    hidden: torch.Tensor,
    scale: float,
    soft_cap: float = 0.0,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """Softmax over the whole context, ``[M, h, L]`` in float32.

    Args:
        queries: ``[M, h, D]``.
        keys: ``[M, h, B, N, D]``, the key head of each query head, in ``B`` pages of ``N``
            positions; what is beyond ``L`` is left out.
        hidden: ``[M, 1, L]`` positions to leave out.
        scale: factor on the scores.
        soft_cap: scores are squashed to ``(-soft_cap, soft_cap)`` when positive.
        sinks: ``[h]`` scores of attention sinks, which take mass and have no position.
    """
    scores = torch.matmul(keys.float(), queries.float()[:, :, None, :, None])
    scores = scores.flatten(2)[..., : hidden.shape[-1]].mul_(scale)
    if soft_cap > 0:
        scores.div_(soft_cap).tanh_().mul_(soft_cap)
    scores.masked_fill_(hidden, float("-inf"))
    if sinks is None:
        return torch.softmax(scores, -1)
    extra = sinks.float()[None, :, None].expand(scores.shape[0], -1, 1)
    return torch.softmax(torch.cat([scores, extra], -1), -1)[..., :-1]


class Replay:
    """Computes the rows of a step with tensor operations, on any device.

    Args:
        taps: the layers to read (``capture.Tap``), bound to their caches.
        slots: ``[tokens]`` cache slot of every staged query.
    """

    def __init__(self, taps: Sequence[Any], slots: torch.Tensor) -> None:
        self._taps = taps
        self._slots = slots
        self._device = slots.device
        self._batch: Batch | None = None

    def __call__(self, wanted: Sequence[WantedRow], batch: Batch, total: int) -> torch.Tensor:
        """Return ``[M, H, 2 + S]`` rows of ``total`` tokens; NaN where a query was not seen."""
        if batch is not self._batch:
            self._upload(batch)
        positions = self._tensor(batch.positions(wanted))
        hidden = {w: hidden_positions(positions, batch.length, w) for w in self._windows}
        matches = self._slots[:total] == self._tensor(batch.slots(wanted))[:, None]
        at = matches.to(torch.uint8).argmax(1)
        layers = [self._layer(tap, at, hidden[tap.layer.sliding_window]) for tap in self._taps]
        rows = self._fold(torch.cat(layers, 1))
        return rows.masked_fill_(~matches.any(1)[:, None, None], float("nan"))

    def gather(
        self, rows: Sequence[tuple[torch.Tensor, int]], heads: Sequence[int], width: int
    ) -> FloatArray:
        """Copy single rows of some heads to the host, ``[rows, heads, width]``."""
        picked = torch.stack([row[i, :, :width] for row, i in rows])[:, heads]
        copied: FloatArray = picked.cpu().numpy()
        return copied

    def _upload(self, batch: Batch) -> None:
        self._batch = batch
        self._windows = {tap.layer.sliding_window for tap in self._taps}
        self._tables = {key: self._tensor(table)[:, None] for key, table in batch.tables.items()}
        starts, ends, prompts = batch.spans.T.tolist()
        self._fold = Fold(starts, ends, prompts, batch.length, batch.heads, self._device)

    def _layer(self, tap: Any, at: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        keys = tap.keys(self._tables[tap.group, tap.page], tap.key_heads[None, :, None])
        impl = tap.layer.impl
        sinks = getattr(impl, "sinks", None)
        return probabilities(
            tap.stage.index_select(0, at),
            keys,
            hidden,
            impl.scale,
            getattr(impl, "logits_soft_cap", None) or 0.0,
            None if sinks is None else sinks[tap.heads],
        )

    def _tensor(self, array: IntArray) -> torch.Tensor:
        return torch.from_numpy(array).to(self._device)


class Fold:
    """Cuts full rows down to the source and two masses.

    Args:
        starts: first source position of each row's request.
        ends: one past its last source position.
        prompts: length of its prompt.
        length: number of context positions ``L``.
        heads: number of heads ``H``.
        device: where the rows are.
    """

    def __init__(
        self,
        starts: list[int],
        ends: list[int],
        prompts: list[int],
        length: int,
        heads: int,
        device: torch.device,
    ) -> None:
        widths = [end - start for start, end in zip(starts, ends, strict=True)]
        first = torch.tensor(starts, device=device)[:, None]
        index = (first + torch.arange(max(widths), device=device)).clamp_(max=length - 1)
        self._index = index[:, None].expand(-1, heads, -1)
        self._padding: torch.Tensor | None = None
        if min(widths) < max(widths):
            widest = torch.arange(max(widths), device=device)
            self._padding = (widest >= torch.tensor(widths, device=device)[:, None])[:, None]
        in_prompt = torch.arange(length, device=device) < torch.tensor(
            prompts, device=device
        ).unsqueeze(1)
        self._parts = torch.stack([in_prompt, ~in_prompt], -1).float()

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """Fold ``[M, H, L]`` rows.

        Returns:
            ``[M, H, 2 + S]``: the mass on the prompt beside the source, the mass on the draft,
            and the source; columns past a source shorter than ``S`` are zero.
        """
        source = rows.gather(2, self._index)
        if self._padding is not None:
            source.masked_fill_(self._padding, 0.0)
        masses = torch.matmul(rows, self._parts)
        masses[..., 0].sub_(source.sum(-1)).clamp_(min=0.0)
        return torch.cat([masses, source], -1)
