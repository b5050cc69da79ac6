"""Index arrays of the rows wanted in a step, kept while the same requests continue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from alignatt_agent.engine.row_requests import WantedRow

IntArray = npt.NDArray[np.int64]


class Batch:
    """Arrays that a step needs beyond queries and keys, for ``M`` wanted rows.

    Shapes stay the same from step to step: contexts are rounded up to whole pages, and positions
    after a query are hidden like every other future position.

    Attributes:
        length: context positions ``L``.
        heads: heads of all layers, ``H``.
        tables: ``[M, B]`` pages for each (cache group, page size).
        spans: ``[M, 3]`` first source position, one past the last, length of the prompt.
        width: columns of a row: the longest source, and two masses.
    """

    def __init__(
        self, wanted: Sequence[WantedRow], taps: Sequence[Any], sizes: Sequence[int]
    ) -> None:
        self._requests = _requests(wanted)
        self._size, self._group = sizes[taps[0].group], taps[0].group
        grain = max(tap.page for tap in taps)
        longest = max(item.position for item in wanted) + 1
        requests = [item.request for item in wanted]
        self.length = -(-longest // grain) * grain
        self.heads = sum(len(tap.columns) for tap in taps)
        self.tables: dict[tuple[int, int], IntArray] = {}
        for tap in taps:
            if (tap.group, tap.page) not in self.tables:
                split, count = sizes[tap.group] // tap.page, -(-self.length // tap.page)
                pages = [request.pages(tap.group, split, count) for request in requests]
                self.tables[tap.group, tap.page] = np.array(pages, np.int64)
        self.spans = np.array([(x.start, x.end, x.prompt) for x in requests], np.int64)
        self.width = int((self.spans[:, 1] - self.spans[:, 0]).max()) + 2

    def serves(self, wanted: Sequence[WantedRow]) -> bool:
        """Whether the same requests want rows, in blocks and pages known here."""
        return _requests(wanted) == self._requests and all(
            item.position < self.length for item in wanted
        )

    def positions(self, wanted: Sequence[WantedRow]) -> IntArray:
        """``[M]`` position of each query."""
        return np.array([item.position for item in wanted], np.int64)

    def slots(self, wanted: Sequence[WantedRow]) -> IntArray:
        """``[M]`` cache slot of each wanted row, in the group of the first tap."""
        group, size = self._group, self._size
        return np.array(
            [
                item.request.blocks[group][item.position // size] * size + item.position % size
                for item in wanted
            ],
            np.int64,
        )


def _requests(wanted: Sequence[WantedRow]) -> list[tuple[int, int]]:
    return [(item.request.number, item.request.epoch) for item in wanted]
