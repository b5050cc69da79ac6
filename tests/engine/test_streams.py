"""Many streams on one engine: each gets what it would get alone, and nothing piles up."""

from __future__ import annotations

import psutil
import pytest

from alignatt_agent.engine import pool
from alignatt_agent.types import Readout
from tests.engine.batches import POLICY, cases, check_same, together
from tests.fixtures.engines import HEADS, make_prompt

MIB = 1 << 20


def test_sixteen_drafts_at_once_are_those_of_one_after_the_other(engines):
    batch = cases(16)
    alone = [case.run(engines.translation) for case in batch]
    assert any(draft.cut for draft in alone)
    for _ in range(3):
        crowd = together(engines.translation, batch)
        for case, draft, expected in zip(batch, crowd, alone, strict=True):
            check_same(case, draft, expected)


def memory_after(requests: int, engine, seed: int) -> float:
    """Resident memory of the translation engine in MiB after so many drafts of one token."""
    model = pool._served["translation"][1]
    # A span of 1,000 tokens: what is left behind 900 times shows.
    prompt = make_prompt(seed, 1100, 20, 1000)
    readouts = (Readout(HEADS, "predicting"), Readout(HEADS, "emitted"))
    for number in range(requests):
        gate = POLICY.gate(500) if number % 3 == 0 else None
        draft = engine.draft(prompt, 1, readouts[number % 2], gate)
        assert draft.rows is not None
    assert model.ask_workers("alignatt_held") == [0]
    (process,) = model._processes
    return psutil.Process(process.pid).memory_info().rss / MIB


def test_memory_does_not_grow_with_requests(engines):
    early = memory_after(100, engines.translation, 1)
    late = memory_after(900, engines.translation, 1)
    # The rows of 900 requests are 29 MB.
    assert late - early < 10


@pytest.mark.parametrize("count", [40])
def test_more_streams_than_the_engine_runs_at_once(engines, count):
    batch = cases(count)
    crowd = together(engines.translation, batch)
    for case, draft in list(zip(batch, crowd, strict=True))[::7]:
        check_same(case, draft, case.run(engines.translation))
