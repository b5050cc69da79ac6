"""The compiled replay of the CPU equals the tensor operations, for every layout and option."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from alignatt_agent.engine import replay_cpu
from alignatt_agent.engine.replay import Fold, hidden_positions, probabilities

PAGE, DIM, KEY_HEADS, BLOCKS = 8, 32, 2, 12
SPANS = [(5, 20, 40), (2, 60, 62), (0, 3, 9)]
POSITIONS = [41, 61, 8]


def layouts() -> dict[str, torch.Tensor]:
    """Places of ``[N, D]`` key elements in a page of ``2 N D``."""
    n, d = torch.arange(PAGE)[:, None], torch.arange(DIM)
    order = torch.randperm(2 * PAGE * DIM, generator=torch.Generator().manual_seed(1))
    return {
        "along positions": d * PAGE + n,
        "along dimensions": n * 2 * DIM + d,
        "scattered": order[: PAGE * DIM].view(PAGE, DIM),
    }


@pytest.mark.parametrize("dtype", replay_cpu.DTYPES, ids=str)
@pytest.mark.parametrize("layout", layouts())
@pytest.mark.parametrize("window", [None, 1, 30])
@pytest.mark.parametrize("soft_cap", [0.0, 3.0])
@pytest.mark.parametrize("with_sinks", [False, True])
def test_equal_to_tensor_operations(dtype, layout, window, soft_cap, with_sinks):
    generator = torch.Generator().manual_seed(0)
    places = layouts()[layout]
    cache = torch.randn(30, KEY_HEADS, 2 * PAGE * DIM, generator=generator).to(dtype)
    stage = torch.randn(9, 3, DIM, generator=generator).to(dtype)
    sinks = torch.randn(3, generator=generator) if with_sinks else None
    key_heads, at = torch.tensor([1, 0, 1]), torch.tensor([4, 0, 8])
    blocks = torch.stack([torch.randperm(30, generator=generator)[:BLOCKS] for _ in SPANS])

    keys = cache[blocks[:, None], key_heads[None, :, None]][..., places.flatten()]
    positions = torch.tensor(POSITIONS)
    hidden = hidden_positions(positions, BLOCKS * PAGE, window)
    keys = keys.unflatten(-1, places.shape)
    full = probabilities(stage[at], keys, hidden, 0.3, soft_cap, sinks)
    starts, ends, prompts = (list(x) for x in zip(*SPANS, strict=True))
    expected = Fold(starts, ends, prompts, BLOCKS * PAGE, 3, full.device)(full)

    # What lies behind a query may be anything.
    dirty = cache.clone()
    for m, last in enumerate(POSITIONS):
        for n in range(last + 1, BLOCKS * PAGE):
            if blocks[m, n // PAGE] not in torch.cat([blocks[:m], blocks[m + 1 :]]):
                dirty[blocks[m, n // PAGE]][:, places[n % PAGE]] = float("nan")
    out = np.full((3, 5, expected.shape[-1]), np.nan, np.float32)
    replay_cpu.attend(
        replay_cpu.memory(dirty),
        dirty.stride(0),
        dirty.stride(1),
        places.numpy(),
        replay_cpu.kind_of(places.numpy()),
        blocks.numpy(),
        key_heads.numpy(),
        replay_cpu.memory(stage).reshape(stage.shape),
        at.numpy(),
        positions.numpy(),
        np.array(SPANS),
        window or 0,
        0.3,
        soft_cap,
        np.zeros(0, np.float32) if sinks is None else sinks.numpy(),
        1,
        np.full(BLOCKS * PAGE, np.nan, np.float32),
        out,
    )
    np.testing.assert_allclose(out[:, 1:4], expected.numpy(), atol=2e-6)
    assert np.isnan(out[:, [0, 4]]).all()


def test_kinds_of_layout():
    kinds = [replay_cpu.kind_of(places.numpy()) for places in layouts().values()]
    assert kinds == [replay_cpu.ALONG_POSITIONS, replay_cpu.ALONG_DIMENSIONS, replay_cpu.SCATTERED]


def test_a_row_that_was_not_staged_is_left_alone():
    at = np.full(3, -1, np.int64)
    replay_cpu.locate(np.array([7, -1, 9, 7]), np.array([9, 8, 7]), at)
    assert at.tolist() == [2, -1, 0]
    out = np.full((1, 1, 4), np.nan, np.float32)
    cache = torch.zeros(1, 1, PAGE * DIM)
    replay_cpu.attend(
        replay_cpu.memory(cache),
        PAGE * DIM,
        PAGE * DIM,
        layouts()["along positions"].numpy(),
        replay_cpu.ALONG_POSITIONS,
        np.zeros((1, 1), np.int64),
        np.zeros(1, np.int64),
        np.zeros((1, 1, DIM), np.float32),
        np.array([-1]),
        np.array([3]),
        np.array([[0, 2, 3]]),
        0,
        1.0,
        0.0,
        np.zeros(0, np.float32),
        0,
        np.zeros(PAGE, np.float32),
        out,
    )
    assert np.isnan(out).all()
