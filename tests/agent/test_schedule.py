"""Schedules move work, not words: overlapped says the same a chunk later, async loses nothing."""

import random
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignatt_agent.booth import Booth, Session
from alignatt_agent.schedule import AsynchronousBooth, OverlappedBooth
from alignatt_agent.types import EngineError
from tests.agent.test_booth import SCRIPT, calls, chunks, hearing, interpreter
from tests.fakes.models import MonotoneEngine, PieceTokenizer

WORDS = [word.text.upper() for word in SCRIPT]


def late(call, seed, longest_s):
    """Delay every call by a random time."""
    rng = random.Random(seed)

    def delayed(*given):
        time.sleep(rng.random() * longest_s)
        return call(*given)

    return delayed


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_overlapped_says_the_same_units_one_chunk_later(seed):
    said = []
    for kind in (Booth, OverlappedBooth):
        booth = kind(hearing(seed)[0], {"a": interpreter(seed), "b": interpreter(seed + 1)})
        steps = [*(booth.step(chunk) for chunk in chunks()), booth.finish()]
        said.append([[step.steps[name].units for name in "ab"] for step in steps])
    plain, later = said
    assert later[0] == [(), ()]
    assert later[1:-1] == plain[:-2]
    # The end says what the last chunk became, too.
    assert later[-1] == [one + rest for one, rest in zip(plain[-2], plain[-1], strict=True)]


@settings(max_examples=10, deadline=None)
@given(failing=st.integers(1, 20))
def test_overlapped_loses_nothing_when_an_engine_fails(failing):
    engine = MonotoneEngine(PieceTokenizer())
    engine.failing = {failing}
    session = Session(hearing(error_rate=0)[0], interpreter(engine=engine), booth=OverlappedBooth)
    said = []
    for call, *audio in calls(session):
        try:
            said += call(*audio).units
        except EngineError:
            said += session.drain().units
    assert said == WORDS


def test_overlapped_hears_while_it_translates():
    drafting, heard_meanwhile = threading.Event(), threading.Event()
    tail, recognizer = hearing(error_rate=0)
    engine = MonotoneEngine(PieceTokenizer())
    draft, transcribe = engine.draft, recognizer.transcribe

    def patient(*given):
        drafting.set()
        assert heard_meanwhile.wait(30)
        return draft(*given)

    def transcribing(*given):
        if drafting.is_set():
            heard_meanwhile.set()
        return transcribe(*given)

    engine.draft, recognizer.transcribe = patient, transcribing
    booth = OverlappedBooth(tail, {"a": interpreter(engine=engine)})
    for chunk in chunks():
        assert not booth.step(chunk).failures
        while not (drafting.is_set() or booth._translating.done()):
            time.sleep(0.001)
    assert heard_meanwhile.is_set()


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), longest_s=st.sampled_from([0.0, 0.002, 0.01]))
def test_asynchronous_is_append_only_keeps_to_the_frontier_and_loses_nothing(seed, longest_s):
    steps = {"a": [], "b": []}
    tail, recognizer = hearing(error_rate=0)
    recognizer.transcribe = late(recognizer.transcribe, seed, longest_s)
    engines = {name: MonotoneEngine(PieceTokenizer()) for name in steps}
    for k, engine in enumerate(engines.values(), 1):
        engine.draft = late(engine.draft, seed + k, longest_s)
    booth = AsynchronousBooth(
        tail,
        {name: interpreter(engine=engine) for name, engine in engines.items()},
        lambda name, step: steps[name].append(step),
    )
    for chunk in chunks():
        booth.step(chunk)
    booth.finish()
    for found in steps.values():
        said = [unit for step in found for unit in step.units]
        assert said == WORDS
        closed = count = 0
        for step in found:
            closed += sum(map(len, step.heard.sentences))
            count += len(step.units)
            assert count <= closed + step.heard.live.accessible


def test_asynchronous_drops_stale_requests_but_no_sentence():
    gate = threading.Event()
    engine = MonotoneEngine(PieceTokenizer())
    draft = engine.draft

    def waiting(*given):
        gate.wait(30)
        return draft(*given)

    engine.draft = waiting
    found = []
    booth = AsynchronousBooth(
        hearing(error_rate=0)[0],
        {"a": interpreter(engine=engine)},
        lambda name, step: found.append(step),
    )
    heard = [booth.step(chunk).heard for chunk in chunks()]
    assert not any(step.units for step in found)  # hearing never waited for the translation
    gate.set()
    booth.finish()
    assert [unit for step in found for unit in step.units] == WORDS
    assert len(found) < len(heard)


def test_asynchronous_reports_errors_and_goes_on():
    engine = MonotoneEngine(PieceTokenizer())
    engine.failing = {2}
    found = []
    booth = AsynchronousBooth(
        hearing(error_rate=0)[0],
        {"a": interpreter(engine=engine)},
        lambda name, step: found.append(step),
    )
    for chunk in chunks():
        booth.step(chunk)
    booth.finish()
    assert [type(step) for step in found if isinstance(step, Exception)] == [EngineError]
    said = [unit for step in found if not isinstance(step, Exception) for unit in step.units]
    assert said == WORDS


@pytest.mark.parametrize("kind", [OverlappedBooth, AsynchronousBooth])
def test_they_can_start_again(kind):
    found = []
    extra = [lambda name, step: found.append(step)] if kind is AsynchronousBooth else []
    booth = kind(
        hearing(error_rate=0)[0],
        {"a": interpreter(engine=MonotoneEngine(PieceTokenizer()))},
        *extra,
    )
    for chunk in chunks()[:6]:
        booth.step(chunk)
    booth.reset()
    found.clear()
    steps = [booth.step(chunk) for chunk in chunks()] + [booth.finish()]
    said = found or [step.steps["a"] for step in steps]
    assert [unit for step in said for unit in step.units] == WORDS
