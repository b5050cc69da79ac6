"""Compute attention rows from queries and keys (Eq. 2 of the paper) with tensor operations.

Dimensions: ``M`` rows (one per query), ``h`` heads of one layer, ``H`` heads of all layers, ``D``
values per head, ``L`` context positions, ``S`` source tokens.
"""

import math
from collections.abc import Sequence
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
    # A sink takes its share of the softmax, and its column is dropped afterwards.
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
        self._taps = taps
        self._slots = slots
        self._group: int = taps[0].group
        self._size = sizes[self._group]
        self._windows = {tap.layer.sliding_window for tap in taps}
        self._requests = [row.request for row in wanted]
        # Every change of a request's blocks creates a new list (``CaptureRequest.blocks``).
        self._blocks = [request.blocks for request in self._requests]
        largest_page = max(tap.keys.page for tap in taps)
        longest = max(row.position for row in wanted) + 1
        self._length = math.ceil(longest / largest_page) * largest_page
        self._tables: dict[tuple[int, int], torch.Tensor] = {}
        for tap in taps:
            if (tap.group, tap.keys.page) not in self._tables:
                table = self._page_table(tap.group, tap.keys.page, sizes[tap.group])
                self._tables[tap.group, tap.keys.page] = table
        self._prepare_fold(sum(len(tap.columns) for tap in taps))

    def _page_table(self, group: int, page: int, block_size: int) -> torch.Tensor:
        """Return the pages of each request, ``[M, 1, B]``."""
        split = block_size // page
        count = math.ceil(self._length / page)
        pages = [request.pages(group, split, count) for request in self._requests]
        return self._tensor(pages)[:, None]

    def _prepare_fold(self, heads: int) -> None:
        """Compute the indices and masks of ``_fold`` for rows of ``heads`` heads."""
        spans = []
        widths = []
        for request in self._requests:
            spans.append((request.start, request.end, request.prompt))
            widths.append(request.end - request.start)
        bounds = self._tensor(spans)[..., None]
        starts = bounds[:, 0]
        ends = bounds[:, 1]
        prompts = bounds[:, 2]
        widest = max(widths)
        positions = torch.arange(self._length, device=self._slots.device)
        source = starts + torch.arange(widest, device=self._slots.device)
        # A shorter source reads beyond its end, where the last position is always valid.
        within = source.clamp(max=self._length - 1)
        self._source = within[:, None].expand(-1, heads, -1)
        self._beyond: torch.Tensor | None = None
        if min(widths) < widest:
            self._beyond = (source >= ends)[:, None]
        in_prompt = positions < prompts
        self._parts = torch.stack([in_prompt, ~in_prompt], -1).float()

    def serves(self, wanted: Sequence[WantedRow]) -> bool:
        """Return whether ``wanted`` has the same requests and blocks, and only known pages."""
        if len(wanted) != len(self._blocks):
            return False
        for row, blocks in zip(wanted, self._blocks, strict=True):
            if row.request.blocks is not blocks or row.position >= self._length:
                return False
        return True

    def __call__(self, wanted: Sequence[WantedRow], total: int) -> torch.Tensor:
        """Return the rows of a step with ``total`` tokens, ``[M, H, 2 + S]``.

        A row contains the mass on the prompt outside the source, the mass on the draft, and the
        weights of the source, padded with zeros to ``S``. A row whose query is missing is NaN.
        """
        positions = self._tensor([row.position for row in wanted])
        hidden = {}
        for window in self._windows:
            hidden[window] = hidden_positions(positions, self._length, window)
        # A stale or padded query has another slot or none, so it cannot match.
        slots = self._tensor([self._slot(row) for row in wanted])
        matches = self._slots[:total] == slots[:, None]
        at = matches.to(torch.uint8).argmax(1)
        layers = [self._layer(tap, at, hidden[tap.layer.sliding_window]) for tap in self._taps]
        rows = self._fold(torch.cat(layers, 1))
        return rows.masked_fill_(~matches.any(1)[:, None, None], float("nan"))

    def _slot(self, row: WantedRow) -> int:
        """Return the cache slot of a requested row, in the group of the first tap."""
        index, offset = divmod(row.position, self._size)
        block = row.request.blocks[self._group][index]
        slot: int = block * self._size + offset
        return slot

    def _layer(self, tap: Any, at: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        """Return the weights of the tapped heads for the queries ``at`` their places."""
        keys = tap.keys(self._tables[tap.group, tap.keys.page], tap.key_heads[None, :, None])
        impl = tap.layer.impl
        # Not every attention backend of vLLM supports sinks and soft caps.
        sinks = getattr(impl, "sinks", None)
        if sinks is not None:
            sinks = sinks[tap.heads]
        return probabilities(
            queries=tap.stage.index_select(0, at),
            keys=keys,
            hidden=hidden,
            scale=impl.scale,
            soft_cap=getattr(impl, "logits_soft_cap", None) or 0.0,
            sinks=sinks,
        )

    def _fold(self, rows: torch.Tensor) -> torch.Tensor:
        """Reduce rows, ``[M, H, L]``, to two masses and the weights of the source."""
        source = rows.gather(2, self._source)
        if self._beyond is not None:
            source.masked_fill_(self._beyond, 0.0)
        # The first mass still includes the source; rounding may make the difference negative.
        masses = torch.matmul(rows, self._parts)
        masses[..., 0].sub_(source.sum(-1)).clamp_(min=0.0)
        return torch.cat([masses, source], -1)

    def _tensor(self, values: Sequence[Any]) -> torch.Tensor:
        return torch.tensor(values, device=self._slots.device)


def gather(
    rows: Sequence[tuple[torch.Tensor, int]], heads: Sequence[int], width: int
) -> FloatArray:
    """Copy the specified rows and heads to the host, ``[rows, heads, width]``."""
    stacked = torch.stack([row[i, :, :width] for row, i in rows])
    copied: FloatArray = stacked[:, heads].cpu().numpy()
    return copied
