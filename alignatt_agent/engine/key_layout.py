"""Read keys from a paged cache, whatever layout the attention backend uses."""

from typing import Any

import torch

_BASE = 128
"""Base of the digits: every floating-point type of a cache represents 1 to 128 exactly."""


class Keys:
    """Keys in the cache of one vLLM ``Attention`` layer.

    ``key_index`` finds the layout. Most backends store positions and dimensions with fixed strides,
    so a strided view reads keys without copying them (CPU: pages of ``[D, N]``; CUDA:
    ``[N, 2 D]``). Other permutations, such as the one for AMX, are gathered element by element.
    """

    def __init__(self, layer: Any) -> None:
        cache = layer.kv_cache
        index = key_index(layer)
        self.page = int(cache.shape[2])
        self._shape = index.shape
        self._index = index.flatten()
        self._cache = cache
        self._view = _strided_view(cache, index)

    def __call__(self, blocks: torch.Tensor, heads: torch.Tensor) -> torch.Tensor:
        """Return keys, ``[M, h, B, N, D]``.

        Args:
            blocks: indices of pages in the cache, ``[M, 1, B]``.
            heads: indices of key heads, ``[1, h, 1]``.
        """
        if self._view is None:
            pages: torch.Tensor = self._cache[blocks, heads].flatten(-2)
            keys = pages.index_select(-1, self._index)
            return keys.view(*keys.shape[:-1], *self._shape)
        if self._view.stride(-1) <= self._view.stride(-2):
            return self._view[blocks, heads]
        # Copying in memory order is about ten times faster.
        copied = self._view.transpose(-1, -2)[blocks, heads]
        return copied.transpose(-1, -2)


def _strided_view(cache: torch.Tensor, index: torch.Tensor) -> torch.Tensor | None:
    """Return a view of the cache's keys, ``[blocks, heads, N, D]``, or ``None`` if none exists.

    ``index`` is the result of ``key_index``.
    """
    width = cache.shape[3]
    places = index // width * cache.stride(2) + index % width * cache.stride(3)
    begin = int(places[0, 0])
    row_stride = int(places[1, 0]) - begin
    column_stride = int(places[0, 1]) - begin
    if row_stride <= 0 or column_stride <= 0:
        return None
    rows = torch.arange(places.shape[0], device=places.device)
    columns = torch.arange(places.shape[1], device=places.device)
    regular = begin + rows[:, None] * row_stride + columns * column_stride
    if not torch.equal(places, regular):
        return None
    return cache.as_strided(
        size=(*cache.shape[:2], *places.shape),
        stride=(*cache.stride()[:2], row_stride, column_stride),
        storage_offset=cache.storage_offset() + begin,
    )


def key_index(layer: Any) -> torch.Tensor:
    """Return the offset of each key element in a page of the layer's cache.

    The backend's update function writes known digits into a scratch cache with the strides of the
    real cache, ``[blocks, kv heads, block size, width]``. Then the digits are read back. Any layout
    that permutes the elements within the page of one block and head is accepted; other layouts are
    rejected.

    Returns:
        int64 offsets, ``[block size, head_dim]``, into a page flattened to ``block size * width``.
    """
    cache = layer.kv_cache
    update = getattr(layer.impl, "do_kv_cache_update", None)
    backend = type(layer.impl).__name__
    if update is None:
        raise NotImplementedError(f"{backend} updates the cache in the forward pass")
    if cache.ndim != 4:
        raise NotImplementedError(f"{backend} has a cache of shape {tuple(cache.shape)}, not 4-D")
    _, heads, block, width = cache.shape
    dim = layer.head_size
    if block * width < 2 * block * dim:
        raise NotImplementedError(f"{backend} packs keys and values into {width} < 2 x {dim}")

    numbers = torch.arange(block * dim, device=cache.device)
    read_back = torch.zeros(heads, block * width, dtype=torch.int64, device=cache.device)
    written = torch.zeros(heads, block * width, dtype=torch.bool, device=cache.device)
    place = 1
    while place < block * dim:
        # A digit is at least 1, so 0 marks a place that the update function did not write.
        digits = (numbers // place) % _BASE + 1
        page = _written_page(layer, update, digits.view(block, 1, dim))
        written = page != 0
        read_back += (page - 1).clamp(min=0) * place
        place *= _BASE
    offsets = written[0].nonzero().squeeze(1)
    same_in_all_heads = torch.equal(read_back, read_back[:1].expand_as(read_back))
    order = read_back[0, offsets]
    if not same_in_all_heads or not torch.equal(order.sort().values, numbers):
        raise NotImplementedError(f"{backend} has a key layout that is not a permutation of a page")
    index = torch.empty_like(numbers)
    index[order] = offsets
    return index.view(block, dim)


def _written_page(layer: Any, update: Any, digits: torch.Tensor) -> torch.Tensor:
    """Write ``digits`` as a scratch block's keys; return its integers, ``[heads, page]``."""
    cache = layer.kv_cache
    _, heads, block, width = cache.shape
    shape = (2, heads, block, width)
    extent = 1
    for size, stride in zip(shape, cache.stride(), strict=True):
        extent += (size - 1) * stride
    memory = torch.zeros(extent, dtype=cache.dtype, device=cache.device)
    scratch = memory.as_strided(shape, cache.stride())
    keys = digits.expand(block, heads, layer.head_size).to(cache.dtype).contiguous()
    slots = torch.arange(block, 2 * block, device=cache.device)
    update(layer, keys, torch.zeros_like(keys), scratch, slots)
    return scratch[1].reshape(heads, block * width).round().long()
