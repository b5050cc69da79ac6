"""Keys are found in any layout that permutes a page; rows are computed from plain tensors."""

from types import SimpleNamespace

import pytest
import torch

from alignatt_agent.engine.attention_rows import RowComputer, hidden_positions, probabilities
from alignatt_agent.engine.key_layout import Keys
from alignatt_agent.engine.row_requests import CaptureRequest, WantedRow

BLOCKS, HEADS, SIZE, DIM = 5, 2, 8, 4


def backend(place):
    """Return an attention layer that stores element ``(n, d)`` of a key at ``place(n, d)``."""

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


def test_unknown_caches_are_refused():
    with pytest.raises(NotImplementedError, match="not a permutation"):  # elements are lost
        Keys(backend(lambda n, d: d))
    layer = backend(LAYOUTS["transposed"])
    layer.kv_cache = torch.zeros(BLOCKS, SIZE, HEADS * 2 * DIM)
    with pytest.raises(NotImplementedError, match=r"cache of shape \(5, 8, 16\)"):
        Keys(layer)
    layer.impl = object()
    with pytest.raises(NotImplementedError, match="in the forward pass"):
        Keys(layer)


# ---------------------------------------------------------------------- rows
def naive(query, keys, position, window, scale, cap, sink):
    """Compute one row with plain Python."""
    scores = []
    for j, key in enumerate(keys):
        if j > position or (window is not None and j <= position - window):
            scores.append(float("-inf"))
            continue
        score = float(query @ key) * scale
        scores.append(cap * float(torch.tanh(torch.tensor(score / cap))) if cap else score)
    extra = [] if sink is None else [sink]
    return torch.softmax(torch.tensor(scores + extra), 0)[: len(scores)]


def test_probabilities_equal_the_written_out_softmax():
    torch.manual_seed(0)
    queries, keys = torch.randn(3, 2, 8), torch.randn(3, 2, 3, 4, 8)
    positions = torch.tensor([10, 4, 7])
    for window in (None, 3):
        for cap in (0.0, 2.0):
            for sinks in (None, torch.tensor([0.3, -1.0])):
                hidden = hidden_positions(positions, 11, window)
                rows = probabilities(queries, keys, hidden, 0.5, cap, sinks)
                for m, position in enumerate(positions.tolist()):
                    for h in range(2):
                        context = keys[m, h].flatten(0, 1)[:11]
                        sink = None if sinks is None else float(sinks[h])
                        expected = naive(queries[m, h], context, position, window, 0.5, cap, sink)
                        torch.testing.assert_close(rows[m, h], expected)


def test_what_lies_in_hidden_positions_does_not_matter():
    queries, keys = torch.randn(1, 1, 4), torch.randn(1, 1, 2, 3, 4)
    hidden = hidden_positions(torch.tensor([3]), 6, 2)
    clean = probabilities(queries, keys, hidden, 1.0)
    keys.view(6, 4)[[0, 1, 4, 5]] = float("nan")
    torch.testing.assert_close(probabilities(queries, keys, hidden, 1.0), clean)
    assert clean[0, 0, [0, 1, 4, 5]].eq(0).all()


def test_a_row_is_found_by_its_slot_and_is_nan_where_no_query_had_it():
    layer = backend(LAYOUTS["row by row"])
    layer.kv_cache.normal_()
    layer.sliding_window, layer.impl.scale = None, 0.5
    heads = torch.tensor([0, 1])
    tap = SimpleNamespace(layer=layer, heads=heads, key_heads=heads, columns=[0, 1], group=0)
    tap.keys, tap.stage = Keys(layer), torch.randn(6, 2, DIM)
    requests = [CaptureRequest(name, 1, 3, 5, 4, 3, [0]) for name in "ab"]
    requests[0].blocks, requests[1].blocks = [[2, 3]], [[4, 1]]
    wanted = [WantedRow(request, SIZE + 1) for request in requests]
    slots = torch.tensor([7, 3 * SIZE + 1, -1, 1 * SIZE + 1, -1, -1])
    computer = RowComputer(wanted, [tap], [SIZE], slots)
    rows = computer(wanted, 6)
    torch.testing.assert_close(rows.sum(-1), torch.ones(2, 2))
    keys = tap.keys(torch.tensor([[[4, 1]]]), heads[None, :, None])
    hidden = hidden_positions(torch.tensor([SIZE + 1]), 2 * SIZE, None)
    expected = probabilities(tap.stage[[3]], keys, hidden, 0.5)[0, :, 1:3]
    torch.testing.assert_close(rows[1, :, 2:], expected)
    slots[1] = 3 * SIZE + 2
    assert computer(wanted, 6).isnan().all(-1).tolist() == [[True, True], [False, False]]
