"""Rows and verified drafts are exact in every mode of vLLM; each test checks that its mode ran."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.engine.environment import engine_environment
from alignatt_agent.engine.served_model import ServedModel
from alignatt_agent.types import Draft, EngineError, Prompt
from alignatt_agent.types.engines import DraftRequest, Readout
from lab.reference import Reference
from tests.engine.batches import (
    EMITTED,
    PREDICTING,
    Case,
    cases,
    check_rows,
    check_same,
    crowd,
    together,
)
from tests.engine.workers import serving
from tests.fixtures.engines import HEADS, make_prompt

FEW_BLOCKS = {"max_model_len": 256, "num_gpu_blocks_override": 32}
"""Too few blocks for a crowd: some requests are preempted and start again."""

SMALL = {"block_size": 32, "max_num_batched_tokens": 96, **FEW_BLOCKS}
"""Pages of 32 tokens, the smallest ones for attention on a CPU, end inside drafts. Steps of 96
tokens end inside prompts and drafts, too."""


BATCH = [*cases(12), *crowd()]


@pytest.fixture(scope="module")
def small(models) -> Iterator[tuple[ServedModel, DraftEngine]]:
    with serving(models, "Witness", **SMALL) as found:
        yield found


@pytest.fixture(scope="module")
def usual(runtime, models) -> list[Draft]:
    """Return drafts of the engines that all tests share, to compare other modes with them."""
    return together(runtime.load_engines(models, HEADS).translation, BATCH)


def check(reference: Reference, usual: list[Draft], drafts: list[Draft]) -> None:
    for case, expected, draft in zip(BATCH, usual, drafts, strict=True):
        check_rows(reference, case, draft)
        check_same(case, draft, expected)


def test_rows_are_refused_rather_than_wrong(engines):
    good = make_prompt(6, 40, 5, 10)
    with pytest.raises(EngineError, match=r"heads \[\(3, 0\)\] were requested"):
        engines.translation.draft(DraftRequest(good, 4, Readout(((3, 0),), "emitted")))
    with pytest.raises(EngineError, match="source span 35:45 is not in"):
        outside = Prompt(good.token_ids, 35, tuple(range(10)))
        engines.translation.draft(DraftRequest(outside, 4, EMITTED))
    with pytest.raises(EngineError, match="source span 5:5"):
        empty = Prompt(good.token_ids, 5, ())
        engines.translation.draft(DraftRequest(empty, 4, EMITTED))
    with pytest.raises(EngineError, match="longer than|maximum context length|max_model_len"):
        engines.translation.draft(DraftRequest(make_prompt(6, 5000, 5, 10), 4, EMITTED))
    assert engines.translation.draft(DraftRequest(good, 4, EMITTED)).rows is not None


@pytest.mark.parametrize("readout", [EMITTED, PREDICTING])
def test_excluded_tokens_are_not_drafted(engines, reference, readout):
    case = Case(make_prompt(7, 40, 5, 10), 6, readout)
    first, second = engines.translation.sampled(case.prompt, 1)[0]
    request = DraftRequest(case.prompt, case.tokens, readout, excluded=(first,))
    draft = engines.translation.draft(request)
    assert draft.token_ids[0] == second
    assert first not in draft.token_ids
    check_rows(reference, case, draft)


def test_drafts_at_once_are_exact_and_those_of_one_after_the_other(engines, reference):
    batch = [*cases(34), *crowd()]  # the engine runs 32 requests at once
    alone = [case.run(engines.translation) for case in batch]
    for _ in range(2):
        at_once = together(engines.translation, batch)
        for case, draft, expected in zip(batch, at_once, alone, strict=True):
            check_same(case, draft, expected)
    for case, draft in zip(batch, at_once, strict=True):
        check_rows(reference, case, draft)
    for case, draft in zip(batch, alone, strict=True):
        spare = case.readout.row == "emitted"
        assert not draft.cut or draft.steps == len(draft.token_ids) + spare
    gated = {(c.readout.row, d.cut) for c, d in zip(batch, alone, strict=True) if c.gate}
    assert gated == {(row, cut) for row in ("predicting", "emitted") for cut in (True, False)}


def test_a_draft_may_end_at_the_limit_of_the_context(small, reference):
    _, engine = small
    prompt = make_prompt(11, 248, 100, 30)  # of 256
    for readout, count in ((PREDICTING, 8), (EMITTED, 7)):
        case = Case(prompt, 16, readout)
        draft = case.run(engine)
        assert (len(draft.token_ids), draft.ended) == (count, False)
        check_rows(reference, case, draft)
    with pytest.raises(EngineError, match="maximum context length|no room|max_model_len"):
        engine.draft(DraftRequest(make_prompt(12, 256, 100, 30), 16))


@pytest.fixture
def asynchronous(monkeypatch):
    """Keep ``async_scheduling``, vLLM's default on other devices, which it disables on a CPU."""
    with engine_environment():
        from vllm.platforms import current_platform
    platform = type(current_platform)
    original = platform.check_and_update_config.__func__

    def keep(cls, config):
        wanted = config.scheduler_config.async_scheduling
        original(cls, config)
        config.scheduler_config.async_scheduling = wanted

    monkeypatch.setattr(platform, "check_and_update_config", classmethod(keep))


def test_asynchronous_scheduling(models, reference, usual, asynchronous):
    mode = {"async_scheduling": True, **FEW_BLOCKS}
    with serving(models, "AsyncWitness", **mode) as (served, engine):
        drafts = together(engine, BATCH)
        again = together(engine, BATCH)
        (seen,) = served.ask_workers("witnessed")
        assert seen["async"]
        assert seen["resumed"] > 0
        assert seen["cached"] > 0
        check(reference, usual, drafts)
        check(reference, usual, again)
        # A step was scheduled before the end of the turn was known, and fed the stop token.
        prompt = make_prompt(1, 50, 5, 20)
        tokens = engine.draft(DraftRequest(prompt, 8)).token_ids
        count = tokens.index(tokens[4])
        stopping = DraftEngine(served, HEADS, frozenset({tokens[4]}))
        draft = Case(prompt, 8, BATCH[1].readout).run(stopping)
        assert (draft.token_ids, draft.ended) == (tokens[:count], True)
        ((fed,),) = [report["fed"].values() for report in served.ask_workers("witnessed")]
        assert fed > 50 + count
        assert served.ask_workers("alignatt_held") == [0]


# ---------------------------------------------------------------------- verified drafts
@pytest.fixture(scope="module")
def ungated(small) -> list[tuple[int, ...]]:
    """Return the tokens of each request without a gate."""
    with ThreadPoolExecutor(len(BATCH)) as threads:
        requests = [DraftRequest(case.prompt, case.tokens) for case in BATCH]
        drafts = threads.map(small[1].draft, requests)
        return [draft.token_ids for draft in drafts]


def wrong(tokens: tuple[int, ...], place: int) -> tuple[int, ...]:
    return (*tokens[:place], tokens[place] ^ 1, *tokens[place + 1 :])


def test_a_verified_draft_is_the_decoded_one(small, reference, usual, ungated):
    model, engine = small
    model.ask_workers("witnessed")
    again = saved = 0
    for case, expected, tokens in list(zip(BATCH, usual, ungated, strict=True))[:9]:
        for given in (tokens, wrong(tokens, 3), (*wrong(tokens, len(tokens) - 1), 9), (7,)):
            for _ in range(2):  # the second time, the source and its draft are known
                draft = replace(case, expected=given).run(engine)
                check_same(case, draft, expected)
                again += draft.steps > expected.steps
            check_rows(reference, case, draft)
        open_case = replace(case, gate=None, expected=tokens)
        steps = [open_case.run(engine).steps for _ in range(2)]
        assert all(count <= 2 for count in steps)  # 2: a position was cached, and computed again
        again += steps.count(2)
        saved += expected.steps - min(steps)
    (seen,) = model.ask_workers("witnessed")
    assert seen["chunks"] > 0
    assert seen["cached"] > 0
    assert again > 0
    assert saved > 0
    assert model.ask_workers("alignatt_held") == [0]


@pytest.mark.parametrize("expects", [False, True])
def test_requests_together_and_preempted(small, reference, usual, ungated, expects):
    model, engine = small
    changed = [
        # All tokens or all but the last one are right; then decoding continues.
        replace(case, expected=(tokens[:5], wrong(tokens, 4)[:5])[i % 2])
        for i, (case, tokens) in enumerate(zip(BATCH, ungated, strict=True))
    ]
    model.ask_workers("witnessed")
    drafts = together(engine, changed if expects else BATCH)
    (seen,) = model.ask_workers("witnessed")
    assert seen["batch"] > 1
    assert seen["resumed"] > 0
    assert expects or seen["chunks"] > 0
    check(reference, usual, drafts)
    assert model.ask_workers("alignatt_held") == [0]
