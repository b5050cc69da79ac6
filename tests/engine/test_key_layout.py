"""Keys are found in any layout that permutes a page, and refused in any other."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from alignatt_agent.engine.key_layout import Keys

BLOCKS, HEADS, SIZE, DIM = 5, 2, 8, 4


def backend(place):
    """Attention layer whose backend keeps element ``(n, d)`` of a key at ``place(n, d)``."""

    class Impl:
        def do_kv_cache_update(self, layer, keys, values, cache, slots):
            for key, slot in zip(keys, slots.tolist(), strict=True):
                for head in range(HEADS):
                    page = cache[slot // SIZE, head].view(-1)
                    for d in range(DIM):
                        page[place(slot % SIZE, d)] = key[head, d]

    return SimpleNamespace(
        kv_cache=torch.zeros(BLOCKS, HEADS, SIZE, 2 * DIM), head_size=DIM, impl=Impl()
    )


LAYOUTS = {
    "row by row": lambda n, d: n * 2 * DIM + d,
    "behind the values": lambda n, d: n * 2 * DIM + DIM + d,
    "transposed": lambda n, d: d * SIZE + n,
    "pairs": lambda n, d: (n // 2) * 2 * DIM + d * 2 + n % 2,
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_keys_are_read_back(name):
    layer = backend(LAYOUTS[name])
    read = Keys(layer)
    keys = torch.randn(BLOCKS * SIZE, HEADS, DIM)
    slots = torch.arange(BLOCKS * SIZE)
    layer.impl.do_kv_cache_update(layer, keys, keys, layer.kv_cache, slots)
    blocks, heads = torch.tensor([[[3, 1]], [[0, 4]]]), torch.tensor([1, 0, 1])[None, :, None]
    got = read(blocks, heads)
    assert got.shape == (2, 3, 2, SIZE, DIM)
    expected = keys.view(BLOCKS, SIZE, HEADS, DIM).permute(0, 2, 1, 3)[blocks, heads]
    assert torch.equal(got, expected)


def test_layouts_that_lose_elements_are_refused():
    with pytest.raises(NotImplementedError, match="no permutation"):
        Keys(backend(lambda n, d: d))


def test_unknown_caches_are_refused():
    layer = backend(LAYOUTS["transposed"])
    layer.kv_cache = torch.zeros(BLOCKS, SIZE, HEADS * 2 * DIM)
    with pytest.raises(NotImplementedError, match=r"cache of shape \(5, 8, 16\)"):
        Keys(layer)
    layer.impl = object()
    with pytest.raises(NotImplementedError, match="inside the forward pass"):
        Keys(layer)
