"""*qk-fast* on the CPU: the rows of one layer in one compiled pass over the paged cache.

The same arithmetic as ``replay``, without a tensor operation per step: a dozen small operators
cost more than the attention that they compute (276 against 15 microseconds a step for 8 heads
and 180 positions).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
import torch
from numba.extending import overload

from alignatt_agent.engine.batch import Batch, IntArray
from alignatt_agent.engine.row_requests import WantedRow
from alignatt_agent.types import FloatArray

DTYPES = (torch.float32, torch.bfloat16)
"""Types of queries and keys that the kernel reads."""

ALONG_POSITIONS, ALONG_DIMENSIONS, SCATTERED = 0, 1, 2
"""Which neighbours lie side by side in a page: keys of one dimension, dimensions of one key."""


class CpuReplay:
    """Computes the rows of a step, like ``replay.Replay``.

    Args:
        taps: the layers to read (``capture.Tap``), bound to their caches.
        slots: ``[tokens]`` cache slot of every staged query.
    """

    def __init__(self, taps: Sequence[Any], slots: torch.Tensor) -> None:
        self._slots = slots.numpy()
        self._layers = []
        self._scores = np.zeros(0, np.float32)
        column = 0
        for tap in taps:
            cache, impl = tap.owner.kv_cache, tap.layer.impl
            offsets = tap.keys.offsets().numpy()
            sinks = getattr(impl, "sinks", None)
            before = (memory(cache), cache.stride(0), cache.stride(1), offsets, kind_of(offsets))
            after = (
                tap.layer.sliding_window or 0,
                float(impl.scale),
                float(getattr(impl, "logits_soft_cap", None) or 0.0),
                _floats(sinks, tap.heads),
                column,
            )
            stage = memory(tap.stage).reshape(tap.stage.shape)
            pages = (tap.group, tap.page)
            self._layers.append((before, pages, tap.key_heads.numpy(), stage, after))
            column += len(tap.columns)

    def __call__(self, wanted: Sequence[WantedRow], batch: Batch, total: int) -> FloatArray:
        """Return ``[M, H, 2 + S]`` rows; one whose query was not seen is NaN.

        Args:
            wanted: the wanted rows, ``M`` of them.
            batch: their index arrays.
            total: number of tokens in the step.
        """
        if len(self._scores) < batch.length:
            self._scores = np.zeros(batch.length, np.float32)
        positions = batch.positions(wanted)
        at = np.full(len(wanted), -1, np.int64)
        locate(self._slots[:total], batch.slots(wanted), at)
        rows = np.full((len(wanted), batch.heads, batch.width), np.nan, np.float32)
        for before, pages, heads, stage, after in self._layers:
            attend(
                *before,
                batch.tables[pages],
                heads,
                stage,
                at,
                positions,
                batch.spans,
                *after,
                self._scores,
                rows,
            )
        return rows

    def gather(
        self, rows: Sequence[tuple[FloatArray, int]], heads: Sequence[int], width: int
    ) -> FloatArray:
        """Copy single rows, of these heads; ``[rows, heads, width]``."""
        return np.stack([row[i, :, :width] for row, i in rows])[:, heads]


def _floats(sinks: torch.Tensor | None, heads: torch.Tensor) -> FloatArray:
    """Scores of the sinks of some heads; they are parameters of the model."""
    if sinks is None:
        return np.zeros(0, np.float32)
    picked: FloatArray = sinks.detach()[heads].float().numpy()
    return picked


def memory(tensor: torch.Tensor) -> Any:
    """Flat NumPy view of a CPU tensor's storage from its first element; bfloat16 as its bits."""
    extent = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    flat = tensor.as_strided((extent,), (1,), tensor.storage_offset())
    return (flat.view(torch.uint16) if tensor.dtype == torch.bfloat16 else flat).numpy()


def kind_of(offsets: IntArray) -> int:
    """Tell how keys lie in a page from their ``[N, D]`` places there."""
    if (np.diff(offsets, axis=0) == 1).all():
        return ALONG_POSITIONS
    return ALONG_DIMENSIONS if (np.diff(offsets, axis=1) == 1).all() else SCATTERED


def _widen(bits: Any) -> Any:
    raise NotImplementedError("compiled code only")


@overload(_widen, inline="always")
def _widen_typed(bits):  # type: ignore[no-untyped-def]  # Numba compares the signatures
    if bits == numba.uint16:
        return lambda bits: np.uint32(np.uint32(bits) << np.uint32(16)).view(np.float32)
    return lambda bits: bits


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def locate(slots: IntArray, wanted: IntArray, at: IntArray) -> None:
    """Write into ``at`` where in ``slots`` each wanted slot is first found."""
    for m in range(wanted.shape[0]):
        for i in range(slots.shape[0]):
            if slots[i] == wanted[m]:
                at[m] = i
                break


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "arcp", "nsz"})  # type: ignore[untyped-decorator]
def attend(
    cache: Any,
    block_step: int,
    head_step: int,
    offsets: IntArray,
    kind: int,
    blocks: IntArray,
    key_heads: IntArray,
    stage: Any,
    at: IntArray,
    positions: IntArray,
    spans: IntArray,
    window: int,
    scale: float,
    soft_cap: float,
    sinks: Any,
    first_column: int,
    scores: Any,
    out: Any,
) -> None:
    """Write the rows of one layer's ``h`` heads for ``M`` queries (Eq. 2).

    Args:
        cache: flat memory of the layer's keys, float32 or the bits of bfloat16.
        block_step: elements from one page to the next.
        head_step: elements from one key head to the next.
        offsets: ``[N, D]`` places of a page's keys.
        kind: how they lie, see ``kind_of``.
        blocks: ``[M, B]`` pages of each request.
        key_heads: ``[h]`` key head of each query head.
        stage: ``[tokens, h, D]`` queries of this step, of the cache's type.
        at: ``[M]`` rows of ``stage``; a negative one leaves its output as it is.
        positions: ``[M]`` position of each query.
        spans: ``[M, 3]`` first source position, one past the last, length of the prompt.
        window: a query sees itself and ``window - 1`` positions before it; 0 is everything.
        scale: factor on the scores.
        soft_cap: scores are squashed to ``(-soft_cap, soft_cap)`` when positive.
        sinks: ``[h]`` scores of attention sinks, or empty.
        first_column: head of ``out`` that the first head writes.
        scores: scratch of at least ``B N`` float32.
        out: ``[M, H, 2 + S]`` rows, see ``replay.Fold``.
    """
    page, dim = offsets.shape
    for m in range(positions.shape[0]):
        if at[m] < 0:
            continue
        last = positions[m]
        low = max(0, last - window + 1) if window > 0 else 0
        start, end, prompt = spans[m, 0], spans[m, 1], spans[m, 2]
        for h in range(key_heads.shape[0]):
            for block in range(low // page, last // page + 1):
                base = blocks[m, block] * block_step + key_heads[h] * head_step
                row = block * page
                # Loops from 0 over slices: Numba checks other indices for negative ones, and
                # then LLVM does not vectorise (21 instead of 4 microseconds a head).
                part = scores[row : row + min(page, last + 1 - row)]
                count = part.shape[0]
                if kind == ALONG_POSITIONS:
                    part[:] = 0.0
                    for d in range(dim):
                        query = _widen(stage[at[m], h, d])
                        keys = cache[base + offsets[0, d] :][:count]
                        for n in range(count):
                            part[n] += query * _widen(keys[n])
                elif kind == ALONG_DIMENSIONS:
                    query_row = stage[at[m], h]
                    for n in range(count):
                        key_row = cache[base + offsets[n, 0] :][:dim]
                        score = np.float32(0.0)
                        for d in range(dim):
                            score += _widen(query_row[d]) * _widen(key_row[d])
                        part[n] = score
                else:
                    for n in range(count):
                        score = np.float32(0.0)
                        for d in range(dim):
                            key = _widen(cache[base + offsets[n, d]])
                            score += _widen(stage[at[m], h, d]) * key
                        part[n] = score

            # What lies before the window may be anything, NaN included.
            seen = scores[low : last + 1]
            highest = np.float32(-np.inf)
            for i in range(seen.shape[0]):
                score = seen[i] * np.float32(scale)
                if soft_cap > 0.0:
                    score = np.float32(math.tanh(score / soft_cap) * soft_cap)
                seen[i] = score
                highest = max(highest, score)
            total = np.float32(0.0)
            if sinks.shape[0]:
                highest = max(highest, sinks[h])
                total = np.float32(math.exp(sinks[h] - highest))
            for i in range(seen.shape[0]):
                seen[i] = math.exp(seen[i] - highest)
            for i in range(seen.shape[0]):
                total += seen[i]

            row_out = out[m, first_column + h]
            rest, draft = np.float32(0.0), np.float32(0.0)
            for i in range(low, min(start, last + 1)):
                rest += scores[i]
            for i in range(max(low, end), min(prompt, last + 1)):
                rest += scores[i]
            for i in range(max(low, prompt), last + 1):
                draft += scores[i]
            row_out[0] = rest / total
            row_out[1] = draft / total
            for i in range(start, end):
                visible = low <= i <= last
                row_out[2 + i - start] = scores[i] / total if visible else np.float32(0.0)
            for i in range(2 + end - start, row_out.shape[0]):
                row_out[i] = 0.0
