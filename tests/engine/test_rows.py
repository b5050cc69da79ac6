"""Rows out of vLLM equal those of Transformers, in every way a request can be served."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psutil
import pytest

from alignatt_agent.engine import pool
from alignatt_agent.types import Draft, EngineError, Prompt
from alignatt_agent.types.engines import Readout
from tests.engine.batches import POLICY, Case, cases, check_rows, check_same, together
from tests.fixtures.engines import HEADS, make_prompt

MIB = 1 << 20

PREDICTING = Readout(HEADS, "predicting")
EMITTED = Readout(HEADS, "emitted")


def check(reference, prompt: Prompt, draft: Draft, readout: Readout) -> None:
    check_rows(reference, Case(prompt, 0, readout, None), draft)


@pytest.mark.parametrize("readout", [PREDICTING, EMITTED], ids=lambda r: r.row)
@pytest.mark.parametrize(("length", "start", "width"), [(20, 3, 9), (100, 40, 30), (180, 20, 150)])
def test_rows_equal_transformers(engines, reference, readout, length, start, width):
    prompt = make_prompt(length, length, start, width)
    draft = engines.translation.draft(prompt, 12, readout)
    assert draft.token_ids
    check(reference, prompt, draft, readout)


def test_prefix_cache_hit(engines, reference):
    first = make_prompt(7, 130, 70, 40, shared=64)
    second = make_prompt(8, 140, 70, 50, shared=64)
    for prompt in (first, second, second):
        check(reference, prompt, engines.translation.draft(prompt, 8, EMITTED), EMITTED)


def test_concurrent_requests(engines, reference):
    prompts = [make_prompt(50 + i, 30 + 23 * i, 5, 10 + 7 * i) for i in range(8)]
    readouts = [
        (PREDICTING, EMITTED, Readout(HEADS[2:5][::-1], "predicting"))[i % 3] for i in range(8)
    ]
    with ThreadPoolExecutor(8) as pool:
        drafts = list(
            pool.map(
                lambda x: engines.translation.draft(x[0], 6 + len(x[0].token_ids) % 9, x[1]),
                zip(prompts, readouts, strict=True),
            )
        )
    for prompt, readout, draft in zip(prompts, readouts, drafts, strict=True):
        check(reference, prompt, draft, readout)


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


def test_masses_add_up(engines):
    rows = engines.translation.draft(make_prompt(5, 90, 10, 60), 8, EMITTED).rows
    total = rows.source.sum(-1) + rows.prompt + rows.suffix
    np.testing.assert_allclose(total, 1.0, atol=1e-5)


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


def test_a_draft_may_end_at_the_limit_of_the_context(engines, reference):
    prompt = make_prompt(11, 2040, 100, 30)  # of 2048
    for readout, count in ((PREDICTING, 8), (EMITTED, 7)):
        draft = engines.translation.draft(prompt, 16, readout)
        assert (len(draft.token_ids), draft.ended) == (count, False)
        check(reference, prompt, draft, readout)
    with pytest.raises(EngineError, match="maximum context length|no room|max_model_len"):
        engines.translation.draft(make_prompt(12, 2048, 100, 30), 16, EMITTED)


@pytest.mark.parametrize("count", [16, 40])  # the engine runs 32 requests at once
def test_drafts_at_once_are_those_of_one_after_the_other(engines, count):
    batch = cases(count)
    alone = [case.run(engines.translation) for case in batch]
    assert any(draft.cut for draft in alone)
    for _ in range(2):
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
