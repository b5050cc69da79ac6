"""Index tensors of the rows wanted in a step, kept while the same requests decode on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from alignatt_agent.engine.replay import Fold, hidden_positions
from alignatt_agent.engine.requests import Work

Key = tuple[tuple[str, int], ...]


class Batch:
    """What a step needs beyond queries and keys.

    Shapes stay the same from step to step: contexts are rounded up to whole pages, and what lies
    behind a query is hidden like every other future position.

    Args:
        work: the wanted rows.
        taps: the layers to read (``capture.Tap``).
        sizes: block size of each cache group.
        device: where the model runs.
    """

    def __init__(
        self, work: Sequence[Work], taps: Sequence[Any], sizes: Sequence[int], device: torch.device
    ) -> None:
        self._key = _key(work)
        self._device = device
        self._size, self._group = sizes[taps[0].group], taps[0].group
        self._windows = {tap.layer.sliding_window for tap in taps}
        grain = max(tap.page for tap in taps)
        longest = max(item.position for item in work) + 1
        self.length = -(-longest // grain) * grain
        live = [item.live for item in work]
        self.tables: dict[tuple[int, int], torch.Tensor] = {}
        for tap in taps:
            if (tap.group, tap.page) not in self.tables:
                split, count = sizes[tap.group] // tap.page, -(-self.length // tap.page)
                table = [request.pages(tap.group, split, count) for request in live]
                self.tables[tap.group, tap.page] = torch.tensor(table, device=device)[:, None]
        self.fold = Fold(
            [request.start for request in live],
            [request.end for request in live],
            [request.prompt for request in live],
            self.length,
            sum(len(tap.columns) for tap in taps),
            device,
        )

    def serves(self, work: Sequence[Work]) -> bool:
        """Whether the same requests want rows, in blocks and pages known here."""
        return _key(work) == self._key and all(item.position < self.length for item in work)

    def hidden(self, work: Sequence[Work]) -> dict[int | None, torch.Tensor]:
        """``[M, 1, L]`` hidden positions for each kind of window."""
        positions = torch.tensor([item.position for item in work], device=self._device)
        return {w: hidden_positions(positions, self.length, w) for w in self._windows}

    def slots(self, work: Sequence[Work]) -> torch.Tensor:
        """``[M, 1]`` cache slot of each wanted row, in the group of the first tap."""
        group, size = self._group, self._size
        slots = [
            item.live.blocks[group][item.position // size] * size + item.position % size
            for item in work
        ]
        return torch.tensor(slots, device=self._device)[:, None]


def _key(work: Sequence[Work]) -> Key:
    return tuple((item.live.key, item.live.epoch) for item in work)
