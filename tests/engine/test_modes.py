"""Rows and verified drafts stay exact in every mode of vLLM; each test checks that its mode ran."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

import psutil
import pytest

from alignatt_agent.cascade import loading
from alignatt_agent.config.agent_config import ModelConfig, ModelsConfig
from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.engine.options import engine_arguments, engine_environment
from alignatt_agent.engine.served_model import ServedModel
from alignatt_agent.engine.speech_models import stop_ids
from alignatt_agent.types import Draft, EngineError
from tests.engine.batches import Case, cases, check_rows, check_same, crowd, together
from tests.fixtures.engines import HEADS, make_prompt

FEW_BLOCKS = {"max_model_len": 256, "num_gpu_blocks_override": 32}
"""Too few for a crowd: some requests are preempted and start again."""

SMALL = {"block_size": 32, "max_num_batched_tokens": 96, **FEW_BLOCKS}
"""Pages of 32 tokens, the fewest that the CPU's attention takes, end inside drafts; steps of 96 end
inside prompts and drafts, too."""


def variant(models: ModelsConfig, worker: str, **engine: object) -> ModelConfig:
    """The translation model with other engine arguments and a worker that takes notes."""
    model = models.translation
    settings = {**model.engine, "worker_cls": f"tests.engine.workers.{worker}", **engine}
    return model.model_copy(update={"engine": settings})


@contextmanager
def serving(model: ModelConfig) -> Iterator[tuple[ServedModel, DraftEngine]]:
    with engine_environment():
        served = ServedModel("variant", engine_arguments("translation", model, HEADS))
    try:
        yield served, DraftEngine(served, HEADS, stop_ids(served))
    finally:
        served.shutdown()


BATCH = [*cases(12), *crowd()]


@pytest.fixture(scope="module")
def small(models) -> Iterator[tuple[ServedModel, DraftEngine]]:
    with serving(variant(models, "Witness", **SMALL)) as found:
        yield found


@pytest.fixture(scope="module")
def usual(models) -> list[Draft]:
    """Drafts of the engines that all tests share, with which the other modes are compared."""
    return together(loading.load_engines(models, HEADS).translation, BATCH)


def check(reference: Callable, usual: list[Draft], drafts: list[Draft], whole: bool = False):
    for case, expected, draft in zip(BATCH, usual, drafts, strict=True):
        check_rows(reference, case, draft)
        check_same(case, draft, expected, whole)


def test_the_usual_drafts_are_exact_and_some_are_cut(reference, usual):
    check(reference, usual, usual)
    gated = [(c.readout.row, d.cut) for c, d in zip(BATCH, usual, strict=True) if c.gate]
    assert {*gated} == {(row, cut) for row in ("predicting", "emitted") for cut in (True, False)}


def test_preempted_requests(small, reference, usual):
    model, engine = small
    model.ask_workers("witnessed")
    drafts = together(engine, BATCH)
    (seen,) = model.ask_workers("witnessed")
    assert seen["resumed"] > 0
    assert seen["chunks"] > 0
    assert seen["batch"] > 1
    check(reference, usual, drafts)
    assert model.ask_workers("alignatt_held") == [0]


@pytest.fixture
def asynchronous(monkeypatch):
    """Keep ``async_scheduling``, which vLLM switches off on a CPU, its default elsewhere."""
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
    model = variant(models, "AsyncWitness", async_scheduling=True, **FEW_BLOCKS)
    with serving(model) as (served, engine):
        drafts = together(engine, BATCH)
        again = together(engine, BATCH)
        (seen,) = served.ask_workers("witnessed")
        assert seen["async"]
        assert seen["resumed"] > 0
        assert seen["cached"] > 0
        check(reference, usual, drafts)
        check(reference, usual, again)
        # A step that was scheduled before the end of the turn was known, and fed that end.
        prompt = make_prompt(1, 50, 5, 20)
        tokens = engine.draft(prompt, 8).token_ids
        count = tokens.index(tokens[4])
        stopping = DraftEngine(served, HEADS, frozenset({tokens[4]}))
        draft = Case(prompt, 8, BATCH[1].readout, None).run(stopping)
        assert (draft.token_ids, draft.ended) == (tokens[:count], True)
        ((fed,),) = [report["fed"].values() for report in served.ask_workers("witnessed")]
        assert fed > 50 + count
        assert served.ask_workers("alignatt_held") == [0]


def test_tensor_parallel_workers(models, reference, usual):
    parallel = {"tensor_parallel_size": 2, "distributed_executor_backend": "mp"}
    with serving(variant(models, "Witness", **parallel)) as (served, engine):
        drafts = together(engine, BATCH)
        ranks = served.ask_workers("witnessed")
        assert [report["ranks"] for report in ranks] == [2, 2]
        assert all(report["batch"] > 1 for report in ranks)
        # No rank has all heads, so a gate is left to the scan of the whole draft.
        check(reference, usual, drafts, whole=True)
        assert served.ask_workers("alignatt_held") == [0, 0]

        # The engine ends with any of its workers.
        children = psutil.Process().children(recursive=True)
        workers = [process for process in children if "Worker" in process.name()]
        assert len(workers) == 2
        os.kill(workers[1].pid, signal.SIGKILL)
        with pytest.raises(EngineError, match="variant: the engine died: "):
            engine.draft(make_prompt(1, 60, 5, 20), 400)
        assert not served.alive


# ---------------------------------------------------------------------- verified drafts
@dataclass(frozen=True)
class Expecting:
    """A request of which something is expected."""

    case: Case
    expected: tuple[int, ...]

    def run(self, engine: DraftEngine) -> Draft:
        case = self.case
        return engine.draft(
            case.prompt, case.tokens, case.readout, case.gate, expected=self.expected
        )


def whole(engine: DraftEngine, case: Case) -> tuple[int, ...]:
    return engine.draft(case.prompt, case.tokens).token_ids


def wrong(tokens: tuple[int, ...], place: int) -> tuple[int, ...]:
    return (*tokens[:place], tokens[place] ^ 1, *tokens[place + 1 :])


def test_a_verified_draft_is_the_decoded_one(small, reference):
    model, engine = small
    model.ask_workers("witnessed")
    again = saved = 0
    for case in cases(9):
        tokens = whole(engine, case)
        usual = case.run(engine)
        ungated = replace(case, gate=None)
        for expected in (tokens, wrong(tokens, 3), (*wrong(tokens, len(tokens) - 1), 9), (7,)):
            for _ in range(2):  # the second time, the source and its draft are known
                draft = Expecting(case, expected).run(engine)
                check_same(case, draft, usual)
                again += draft.steps > usual.steps
            check_rows(reference, case, draft)
        steps = [Expecting(ungated, tokens).run(engine).steps for _ in range(2)]
        assert all(count <= 2 for count in steps)  # 2: a position was cached, and computed again
        again += steps.count(2)
        saved += usual.steps - min(steps)
    (seen,) = model.ask_workers("witnessed")
    assert seen["chunks"] > 0
    assert seen["cached"] > 0
    assert again > 0
    assert saved > 0
    assert model.ask_workers("alignatt_held") == [0]


def test_a_verified_draft_goes_on_where_its_gate_has_opened(small):
    _, engine = small
    resumed = 0
    for case in cases(9):
        tokens = whole(engine, case)
        begun = case.run(engine)
        if begun.cut and len(begun.token_ids) < case.tokens:
            resumed += 1
            arguments = (case.prompt, case.tokens, case.readout, None, begun)
            rest = tokens[len(begun.token_ids) :]
            usual = engine.draft(*arguments)
            for expected in (rest, (*rest[:2], 9, *rest[3:])):
                check_same(case, engine.draft(*arguments, expected), usual)
    assert resumed > 1


def test_verified_drafts_together_and_preempted(small, reference):
    model, engine = small
    batch = [*cases(12), *crowd()]
    usual = [case.run(engine) for case in batch]
    drafts = [whole(engine, case) for case in batch]
    changed = [
        Expecting(case, (tokens[:5], wrong(tokens, 4)[:5])[i % 2])  # and then decoding goes on
        for i, (case, tokens) in enumerate(zip(batch, drafts, strict=True))
    ]
    model.ask_workers("witnessed")
    with ThreadPoolExecutor(len(batch)) as threads:
        found = list(threads.map(lambda item: item.run(engine), changed))
    (seen,) = model.ask_workers("witnessed")
    assert seen["batch"] > 1
    assert seen["resumed"] > 0
    for case, draft, expected in zip(batch, found, usual, strict=True):
        check_same(case, draft, expected)
        check_rows(reference, case, draft)
    assert model.ask_workers("alignatt_held") == [0]
