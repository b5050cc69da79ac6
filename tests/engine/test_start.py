"""Engines are shared, are restarted after their death, and report the cause of failures."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from alignatt_agent.engine.speech_models import SpeechModel
from alignatt_agent.engine.start import start_model
from alignatt_agent.types import EngineError
from alignatt_agent.types.engines import DraftRequest
from tests.engine.batches import EMITTED
from tests.fixtures.engines import HEADS, make_prompt


def noise(seconds: float, seed: int = 0) -> np.ndarray:
    samples = np.random.default_rng(seed).standard_normal(int(seconds * 16_000))
    return (samples * 0.1).astype(np.float32)


def test_equal_arguments_and_threads_that_load_at_once_share_the_engines(engines, runtime, models):
    assert runtime.load_engines(models, HEADS[::-1]) is engines
    with ThreadPoolExecutor(4) as threads:
        loaded = list(threads.map(lambda _: runtime.load_engines(models, HEADS), range(4)))
    assert all(found is engines for found in loaded)
    assert (engines.num_layers, engines.num_heads) == (6, 8)
    assert engines.tokenizer.is_fast


@pytest.fixture
def _interruptible():
    """Handle SIGINT, which is ignored if a shell runs the tests in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
def test_an_interrupted_request_ends(engines, runtime):
    model = runtime.served["translation"]
    main = threading.main_thread().ident
    for seed in range(3):
        threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            engines.translation.draft(DraftRequest(make_prompt(seed, 60, 5, 20), 1500, EMITTED))
    # The next request is served after the end of the interrupted ones.
    request = DraftRequest(make_prompt(9, 60, 5, 20), 6, EMITTED)
    assert engines.translation.draft(request).rows is not None
    assert model._engine.get_num_unfinished_requests() == 0


def test_an_error_of_a_worker_is_no_death(engines, runtime):
    model = runtime.served["translation"]
    with pytest.raises(EngineError, match="Method 'no_such_call' is not implemented"):
        model.ask_workers("no_such_call")
    assert model.alive
    request = DraftRequest(make_prompt(1, 60, 5, 20), 6, EMITTED)
    assert engines.translation.draft(request).rows is not None


def test_a_verified_transcript_is_the_decoded_one(engines, runtime):
    asr = runtime.served["asr"]
    model = SpeechModel(asr)
    prompt = engines.asr._prompt.ids("English", "")
    for seed in range(3):
        audio = noise(1.0 + seed, seed)
        usual = model.generate(prompt, audio, 24)
        assert len(usual.token_ids) > 8
        tokens, steps_of_all = usual.token_ids, usual.steps
        other = next(token for token in (10, 11, 12) if token not in (tokens[0], tokens[4]))
        for expected, requests, steps in (
            ((), 1, steps_of_all),
            (tokens, 1, 1),
            (tokens[:5], 1, steps_of_all - 5),
            ((*tokens, *tokens[:2]), 1, 1),
            ((*tokens[:4], other, *tokens[5:]), 2, steps_of_all - 4),
            ((other,), 2, steps_of_all),
        ):
            answer = model.generate(prompt, audio, 24, expected)
            assert (answer.token_ids, answer.ended) == (tokens, usual.ended)
            assert (answer.requests, answer.steps) == (requests, steps)
    assert asr.ask_workers("alignatt_held") == [0]


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ({"kv_sharing_fast_prefill": True}, "never verified with kv_sharing_fast_prefill"),
        # This fails in the engine's process, once the model is loaded.
        ({"worker_cls": "tests.engine.workers.Biased"}, "layers.0.* never verified with ALiBi"),
    ],
    ids=lambda value: "".join(value) if isinstance(value, dict) else "",
)
def test_what_cannot_work_is_refused_at_start_up(models, engine, message):
    with pytest.raises(EngineError, match=f"^translation model .*: .*({message})"):
        start_model("translation", models.translation, HEADS, **engine)


def test_an_engine_that_dies_is_named_and_can_be_started_again(engines, runtime, models):
    served = runtime.served
    prompt = make_prompt(1, 60, 5, 20)
    audio = noise(2.0)

    def align() -> None:
        while True:
            engines.aligner.align(audio, "the model reads every word", "en")

    with ThreadPoolExecutor(8) as threads:
        long = DraftRequest(prompt, 1500, EMITTED)
        translations = [threads.submit(engines.translation.draft, long) for _ in range(3)]
        alignments = [threads.submit(align) for _ in range(2)]
        time.sleep(0.5)
        # A stopped process does not answer, so this call certainly waits when the process dies.
        os.kill(*served["translation"].pids, signal.SIGSTOP)
        asked = threads.submit(served["translation"].ask_workers, "alignatt_held")
        time.sleep(0.2)
        dying = {"translation": [*translations, asked], "aligner": alignments}
        for role in dying:
            os.kill(*served[role].pids, signal.SIGKILL)
        for role, futures in dying.items():
            path = getattr(models, role).path
            killed = "killed by SIGKILL, possibly because memory was exhausted"
            for future in futures:
                with pytest.raises(EngineError) as error:
                    future.result(60)
                assert str(error.value) == (
                    f"{role} model {path}: the engine died: the process was {killed}"
                )
    with pytest.raises(EngineError, match="translation model .* killed by SIGKILL"):
        engines.translation.draft(DraftRequest(prompt, 4, EMITTED))

    # An engine that does not start reports the cause; the others keep running.
    asr = served["asr"]
    engine = {**models.translation.engine, "max_num_seqs": 0}
    changed = models.translation.model_copy(update={"engine": engine})
    with pytest.raises(EngineError, match=r"(?s)^translation model .*max_num_seqs"):
        runtime.load_engines(models.model_copy(update={"translation": changed}), HEADS)
    again = runtime.load_engines(models, HEADS)
    assert again is not engines
    assert served["asr"] is asr
    assert again.translation.draft(DraftRequest(prompt, 4, EMITTED)).rows is not None
    assert again.aligner.align(audio, "the model", "en")
