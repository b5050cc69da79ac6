"""Compute attention rows from queries and keys (Eq. 2 of the paper) with tensor operations.

Dimensions: ``M`` rows (one per query), ``h`` heads of one layer, ``H`` heads of all layers, ``D``
values per head, ``L`` context positions, ``S`` source tokens.
"""

from collections.abc import Sequence
from operator import is_
from typing import Any

import torch

from alignatt_agent.engine.row_requests import WantedRow
from alignatt_agent.types import FloatArray


def hidden_positions(positions: torch.Tensor, length: int, window: int | None) -> torch.Tensor:
    """Return a mask, ``[M, 1, L]``, of the positions after each query or before its window.

    ``positions`` are ``[M]``. A query sees itself and the ``window - 1`` positions before it.
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
    """Return the softmax of the scores over the whole context, ``[M, h, L]`` in float32.

    Args:
        queries: ``[M, h, D]``.
        keys: ``[M, h, B, N, D]``, the keys for each query head, in ``B`` pages of ``N`` positions.
            Positions ``L`` and later are ignored.
        hidden: ``[M, 1, L]``, the positions to ignore.
        scale: factor by which scores are multiplied.
        soft_cap: if positive, tanh limits scores to ``(-soft_cap, soft_cap)``.
        sinks: ``[h]``, scores of attention sinks, which receive mass but have no position.
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


class RowComputer:
    """Computes attention rows for the same requests in successive steps.

    Shapes do not change between steps: contexts are rounded up to whole pages, and surplus
    positions are hidden, like all positions after the query.

    ``taps`` are the layers to read (``capture.Tap``), bound to their caches. ``sizes`` contains the
    number of positions in a block of each cache group. ``slots``, ``[tokens]``, contains the cache
    slot of every staged query.
    """

    def __init__(
        self,
        wanted: Sequence[WantedRow],
        taps: Sequence[Any],
        sizes: Sequence[int],
        slots: torch.Tensor,
    ) -> None:
        self._taps, self._slots = taps, slots
        self._group: int = taps[0].group
        self._size = sizes[self._group]
        self._windows = {tap.layer.sliding_window for tap in taps}
        grain = max(tap.keys.page for tap in taps)
        longest = max(item.position for item in wanted) + 1
        self._length = -(-longest // grain) * grain
        requests = [item.request for item in wanted]
        self._blocks = [request.blocks for request in requests]
        self._tables: dict[tuple[int, int], torch.Tensor] = {}
        for tap in taps:
            group, page = tap.group, tap.keys.page
            if (group, page) not in self._tables:
                split, count = sizes[group] // page, -(-self._length // page)
                pages = [request.pages(group, split, count) for request in requests]
                self._tables[group, page] = self._tensor(pages)[:, None]
        widths = [request.end - request.start for request in requests]
        spans = self._tensor([(x.start, x.end, x.prompt) for x in requests])
        starts, ends, prompts = spans.T[..., None]
        positions = torch.arange(self._length, device=slots.device)
        source = starts + torch.arange(max(widths), device=slots.device)
        heads = sum(len(tap.columns) for tap in taps)
        self._source = source.clamp(max=self._length - 1)[:, None].expand(-1, heads, -1)
        self._beyond = (source >= ends)[:, None] if min(widths) < max(widths) else None
        in_prompt = positions < prompts
        self._parts = torch.stack([in_prompt, ~in_prompt], -1).float()

    def serves(self, wanted: Sequence[WantedRow]) -> bool:
        """Return whether ``wanted`` has the same requests and blocks, and only known pages."""
        blocks = [item.request.blocks for item in wanted]
        same = len(blocks) == len(self._blocks) and all(map(is_, blocks, self._blocks))
        return same and all(item.position < self._length for item in wanted)

    def __call__(self, wanted: Sequence[WantedRow], total: int) -> torch.Tensor:
        """Return the rows of a step with ``total`` tokens, ``[M, H, 2 + S]``.

        A row contains the mass on the prompt outside the source, the mass on the draft, and the
        weights of the source, padded with zeros to ``S``. A row whose query is missing is NaN.
        """
        positions = self._tensor([item.position for item in wanted])
        hidden = {w: hidden_positions(positions, self._length, w) for w in self._windows}
        matches = self._slots[:total] == self._tensor([*map(self._slot, wanted)])[:, None]
        at = matches.to(torch.uint8).argmax(1)
        layers = [self._layer(tap, at, hidden[tap.layer.sliding_window]) for tap in self._taps]
        rows = self._fold(torch.cat(layers, 1))
        return rows.masked_fill_(~matches.any(1)[:, None, None], float("nan"))

    def _slot(self, item: WantedRow) -> int:
        """Return the cache slot of a requested row, in the group of the first tap."""
        block, offset = divmod(item.position, self._size)
        slot: int = item.request.blocks[self._group][block] * self._size + offset
        return slot

    def _layer(self, tap: Any, at: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        keys = tap.keys(self._tables[tap.group, tap.keys.page], tap.key_heads[None, :, None])
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

    def _fold(self, rows: torch.Tensor) -> torch.Tensor:
        """Reduce rows, ``[M, H, L]``, to two masses and the weights of the source."""
        source = rows.gather(2, self._source)
        if self._beyond is not None:
            source.masked_fill_(self._beyond, 0.0)
        masses = torch.matmul(rows, self._parts)
        masses[..., 0].sub_(source.sum(-1)).clamp_(min=0.0)
        return torch.cat([masses, source], -1)

    def _tensor(self, values: Sequence[Any]) -> torch.Tensor:
        return torch.tensor(values, device=self._slots.device)


def gather(
    rows: Sequence[tuple[torch.Tensor, int]], heads: Sequence[int], width: int
) -> FloatArray:
    """Copy the specified rows and heads to the host, ``[rows, heads, width]``."""
    picked = torch.stack([row[i, :, :width] for row, i in rows])[:, heads]
    copied: FloatArray = picked.cpu().numpy()
    return copied
