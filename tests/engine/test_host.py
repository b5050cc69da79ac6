"""Life of the engines: shared, exact, and loud when they fail."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from alignatt_agent.engine import host
from alignatt_agent.engine.drafts import DraftEngine, greedy
from alignatt_agent.engine.options import engine_arguments, engine_environment
from alignatt_agent.engine.served import ServedModel
from alignatt_agent.engine.speech import stop_ids
from alignatt_agent.nouns import EngineError, Readout
from tests.engine.conftest import HEADS, make_prompt

READOUT = Readout(HEADS, "emitted")


def noise(seconds: float, seed: int = 0) -> np.ndarray:
    samples = np.random.default_rng(seed).standard_normal(int(seconds * 16_000))
    return (samples * 0.1).astype(np.float32)


def served(role: str) -> ServedModel:
    return host._served[role][1]


def rows_held() -> int:
    (held,) = served("translation").ask_workers("alignatt_held")
    return held


def test_equal_arguments_share_the_engines(engines, models):
    assert host.load_engines(models, HEADS[::-1]) is engines
    assert (engines.num_layers, engines.num_heads) == (6, 8)
    assert engines.tokenizer.is_fast


def test_token_ids_are_the_same_with_and_without_capture(engines, models):
    with engine_environment():
        model = ServedModel("plain", engine_arguments("translation", models.translation, ()))
    plain = DraftEngine(model, (), stop_ids(model))
    try:
        for seed in range(6):
            prompt = make_prompt(seed, 40 + 25 * seed, 5, 20)
            expected = plain.draft(prompt, 12)
            assert engines.translation.draft(prompt, 12).token_ids == expected.token_ids
            for row in ("predicting", "emitted"):
                draft = engines.translation.draft(prompt, 12, Readout(HEADS, row))
                assert draft.token_ids == expected.token_ids
        with pytest.raises(EngineError, match="was started for"):
            plain.draft(prompt, 4, READOUT)
    finally:
        model.shutdown()
    with pytest.raises(EngineError, match=r"^plain: the engine was shut down"):
        plain.draft(prompt, 4)


def test_a_turn_that_ends_by_itself(engines):
    prompt = make_prompt(1, 50, 5, 20)
    usual = engines.translation.draft(prompt, 8).token_ids
    last = usual[4]
    stopping = DraftEngine(served("translation"), sorted(HEADS), frozenset({last}))
    count = usual.index(last)
    for row in ("predicting", "emitted"):
        draft = stopping.draft(prompt, 8, Readout(HEADS, row))
        assert draft.ended
        assert draft.token_ids == usual[:count]
        assert len(draft.rows.source) == count


def test_nothing_is_held_after_drafts_and_little_after_aborts(engines):
    for seed in range(5):
        engines.translation.draft(make_prompt(seed, 60, 5, 20), 6, READOUT)
    assert rows_held() == 0

    model, drafts = served("translation"), engines.translation
    prompt = make_prompt(9, 60, 5, 20)
    extra = {"alignatt": drafts._wish("aborted", prompt, 400, READOUT)}

    async def abandon():
        request = model._engine.generate(
            {"prompt_token_ids": list(prompt.token_ids)}, greedy(400, frozenset(), extra), "x"
        )
        task = asyncio.ensure_future(anext(request))
        await asyncio.sleep(0.3)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    model._call(abandon())
    assert drafts.draft(prompt, 6, READOUT).rows is not None
    assert rows_held() <= 1


def test_streams_share_the_engines(engines):
    def stream(seed: int) -> tuple:
        audio = noise(1.0 + seed / 2, seed)
        text = engines.asr.transcribe(audio, "en")
        items = engines.aligner.align(audio, "the model reads every word", "en")
        prompt = make_prompt(seed, 40 + seed, 5, 20)
        return text, items, engines.translation.draft(prompt, 6, READOUT).token_ids

    alone = [stream(seed) for seed in range(6)]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(stream, range(6)))
    assert together == alone


@pytest.mark.parametrize(
    ("engine", "heads", "message"),
    [
        ({}, ((6, 0),), r"no attention heads \[\(6, 0\)\] in 6 layers of 8 heads"),
        ({}, ((0, -1),), r"no attention heads \[\(0, -1\)\]"),
        ({"kv_sharing_fast_prefill": True}, HEADS, "kv_sharing_fast_prefill"),
        ({"kv_cache_dtype": "fp8"}, HEADS, "quantised KV cache"),
        ({"unknown_option": 1}, HEADS, "unknown_option"),
    ],
)
def test_what_cannot_work_is_refused_at_start_up(models, engine, heads, message):
    model = models.translation.model_copy(update={"engine": engine})
    with pytest.raises((EngineError, ValueError), match=message), engine_environment():
        ServedModel("mt", engine_arguments("translation", model, heads))


def test_an_engine_that_dies_is_named_and_can_be_started_again(engines, models):
    model = served("translation")
    (process,) = model._engine.engine_core.resources.engine_manager.processes
    prompt = make_prompt(1, 60, 5, 20)

    def long_draft(_: int) -> str:
        try:
            engines.translation.draft(prompt, 1500, READOUT)
        except EngineError as error:
            return str(error)
        return "no error"

    with ThreadPoolExecutor(3) as pool:
        errors = pool.map(long_draft, range(3))
        time.sleep(0.5)
        os.kill(process.pid, signal.SIGKILL)
        for error in errors:
            assert error.startswith(f"translation model {models.translation.path}: ")
            assert "EngineDeadError" in error
    with pytest.raises(EngineError, match="translation model"):
        engines.translation.draft(prompt, 4, READOUT)

    asr = served("asr")
    again = host.load_engines(models, HEADS)
    assert again is not engines
    assert served("asr") is asr
    assert again.translation.draft(prompt, 4, READOUT).rows is not None
