"""Rows out of vLLM equal those of Transformers, in every way a request can be served."""

from __future__ import annotations

import numpy as np
import psutil
import pytest

from alignatt_agent.engine import pool
from alignatt_agent.types import EngineError, Prompt
from alignatt_agent.types.engines import Readout
from tests.engine.batches import POLICY, Case, cases, check_rows, check_same, together
from tests.fixtures.engines import HEADS, make_prompt

MIB = 1 << 20

PREDICTING = Readout(HEADS, "predicting")
EMITTED = Readout(HEADS, "emitted")


@pytest.mark.parametrize("readout", [PREDICTING, EMITTED], ids=lambda r: r.row)
@pytest.mark.parametrize(("length", "start", "width"), [(20, 3, 9), (100, 40, 30), (180, 20, 150)])
def test_rows_equal_transformers(engines, reference, readout, length, start, width):
    prompt = make_prompt(length, length, start, width)
    case = Case(prompt, 12, readout)
    check_rows(reference, case, case.run(engines.translation))


def test_prefix_cache_hit(engines, reference):
    first = make_prompt(7, 130, 70, 40, shared=64)
    second = make_prompt(8, 140, 70, 50, shared=64)
    for case in (Case(prompt, 8, EMITTED) for prompt in (first, second, second)):
        check_rows(reference, case, case.run(engines.translation))


def test_a_readout_may_take_some_heads_in_any_order(engines):
    prompt = make_prompt(3, 60, 10, 20)
    whole = engines.translation.draft(prompt, 6, EMITTED).rows
    some = engines.translation.draft(prompt, 6, Readout((HEADS[6], HEADS[1]), "emitted")).rows
    np.testing.assert_allclose(some.source, whole.source[:, [6, 1]], atol=1e-6)
    np.testing.assert_allclose(some.suffix, whole.suffix[:, [6, 1]], atol=1e-6)


def test_both_conventions_see_the_same_queries(engines):
    prompt = make_prompt(4, 60, 10, 20)
    predicting = engines.translation.draft(prompt, 8, PREDICTING)
    emitted = engines.translation.draft(prompt, 8, EMITTED)
    assert predicting.token_ids == emitted.token_ids
    assert len(emitted.rows.source) == len(emitted.token_ids)
    np.testing.assert_allclose(predicting.rows.source[1:], emitted.rows.source[:-1], atol=1e-6)
    assert (predicting.rows.suffix[0] == 0).all()
    assert (emitted.rows.suffix[0] > 0).any()


def test_rows_are_refused_rather_than_wrong(engines):
    good = make_prompt(6, 40, 5, 10)
    with pytest.raises(EngineError, match=r"heads \[\(3, 0\)\] were asked for"):
        engines.translation.draft(good, 4, Readout(((3, 0),), "emitted"))
    with pytest.raises(EngineError, match="source span 35:45 is not inside"):
        engines.translation.draft(Prompt(good.token_ids, 35, tuple(range(10))), 4, EMITTED)
    with pytest.raises(EngineError, match="source span 5:5"):
        engines.translation.draft(Prompt(good.token_ids, 5, ()), 4, EMITTED)
    with pytest.raises(EngineError, match="longer than|maximum context length|max_model_len"):
        engines.translation.draft(make_prompt(6, 5000, 5, 10), 4, EMITTED)
    assert engines.translation.draft(good, 4, EMITTED).rows is not None


def test_drafts_at_once_are_those_of_one_after_the_other(engines, reference):
    batch = cases(40)  # the engine runs 32 requests at once
    alone = [case.run(engines.translation) for case in batch]
    assert any(draft.cut for draft in alone)
    for _ in range(2):
        crowd = together(engines.translation, batch)
        for case, draft, expected in zip(batch, crowd, alone, strict=True):
            check_same(case, draft, expected)
    for case, draft in zip(batch[:9], crowd, strict=False):
        check_rows(reference, case, draft)


def memory_after(requests: int, engine, seed: int) -> float:
    """Resident memory of the translation engine in MiB after so many drafts."""
    model = pool._served["translation"][1]
    # A span of 1,000 tokens: what is left behind 80 times shows.
    prompt = make_prompt(seed, 1100, 20, 1000)
    for number in range(requests):
        gate = POLICY.gate(500) if number % 3 == 0 else None
        draft = engine.draft(prompt, 12, (PREDICTING, EMITTED)[number % 2], gate)
        assert draft.rows is not None
    assert model.ask_workers("alignatt_held") == [0]
    (process,) = model._processes
    return psutil.Process(process.pid).memory_info().rss / MIB


def test_memory_does_not_grow_with_requests(engines):
    early = memory_after(20, engines.translation, 1)
    late = memory_after(80, engines.translation, 1)
    # The rows of 80 requests are 20 to 30 MB.
    assert late - early < 10
