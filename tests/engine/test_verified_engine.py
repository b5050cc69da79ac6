"""Verification on real engines: in chunks, with cached and with preempted prompts."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pytest

from alignatt_agent.engine import pool
from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.engine.served_model import ServedModel
from alignatt_agent.engine.speech_models import SpeechModel
from alignatt_agent.types import Draft
from tests.engine.batches import Case, cases, check_rows, check_same, crowd
from tests.engine.test_modes import FEW_BLOCKS, serving, variant
from tests.engine.test_pool import noise

# Pages of 32 tokens, the fewest that the CPU's attention takes, end inside drafts; steps of 96 end
# inside prompts and drafts, too, and 32 pages are too few for a crowd.
SMALL = {"block_size": 32, "max_num_batched_tokens": 96, **FEW_BLOCKS}


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


@pytest.fixture(scope="module")
def small(models) -> Iterator[tuple[ServedModel, DraftEngine]]:
    with serving(variant(models, "Witness", **SMALL)) as found:
        yield found


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


def test_a_verified_transcript_is_the_decoded_one(engines):
    served = pool._served["asr"][1]
    model = SpeechModel(served)
    prompt = engines.asr._prompt.ids("English", "")
    for seed in range(3):
        audio = noise(1.0 + seed, seed)
        usual = model.generate(prompt, audio, 24)
        assert len(usual.token_ids) > 8
        tokens = usual.token_ids
        other = 10 if tokens[4] != 10 else 11
        for expected, requests, steps in (
            (tokens, 1, 1),
            (tokens[:5], 1, usual.steps - 5),
            ((*tokens, *tokens[:2]), 1, 1),
            ((*tokens[:4], other, *tokens[5:]), 2, usual.steps - 4),
        ):
            answer = model.generate(prompt, audio, 24, expected)
            assert (answer.token_ids, answer.ended) == (tokens, usual.ended)
            assert (answer.requests, answer.steps) == (requests, steps)
    assert served.ask_workers("alignatt_held") == [0]
