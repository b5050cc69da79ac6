"""Schedules do not change the units: overlapped ones come a chunk later, and none is lost."""

import random
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulstream.config import yaml_config

from alignatt_agent.cascade.stream import Stream
from alignatt_agent.types import EngineError
from lab.schedules import (
    AsynchronousAgent,
    AsynchronousStream,
    OverlappedAgent,
    OverlappedStream,
)
from tests.fakes.agent import FakeAgent, talk, translated, word, write_config
from tests.fakes.models import before_calls, fail_calls
from tests.fakes.streams import (
    TRANSLATION,
    build,
    calls,
    chunks,
    joined,
    monotone,
    noisy,
    speech_side,
    target_stream,
)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_overlapped_emits_the_same_units_one_chunk_later(seed):
    outputs = []
    for kind in (Stream, OverlappedStream):
        stream = kind(speech_side(seed, 0.5), {"a": noisy(seed), "b": noisy(seed + 1)})
        steps = [*(stream.step(chunk) for chunk in chunks()), stream.finish()]
        outputs.append([[step.steps[code].units for code in "ab"] for step in steps])
    plain, later = outputs
    assert later[0] == [(), ()]
    assert later[1:-1] == plain[:-2]
    # The end also returns the units of the last chunk.
    assert later[-1] == [one + rest for one, rest in zip(plain[-2], plain[-1], strict=True)]


@pytest.mark.parametrize("kind", [OverlappedStream, AsynchronousStream])
@settings(max_examples=10, deadline=None)
@given(failing=st.integers(1, 20))
def test_nothing_is_lost_when_an_engine_fails(kind, failing):
    stream, _, engine = build(kind=kind)
    fail_calls(engine, "draft", {failing})
    said = []
    for call, *audio in calls(stream):
        try:
            said += call(*audio).only().units
        except EngineError:
            said += stream.drain("a").units
    assert said == TRANSLATION


def test_overlapped_recognizes_while_it_translates():
    drafting, recognized = threading.Event(), threading.Event()
    stream, recognizer, engine = build(kind=OverlappedStream)

    def wait():
        drafting.set()
        assert recognized.wait(30)

    before_calls(engine, "draft", wait)
    before_calls(recognizer, "transcribe", lambda: drafting.is_set() and recognized.set())
    for chunk in chunks():
        assert not stream.step(chunk).failures
        while not (drafting.is_set() or stream._translating.done()):
            time.sleep(0.001)
    assert recognized.is_set()


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), longest_s=st.sampled_from([0.0, 0.002, 0.01]))
def test_asynchronous_is_append_only_keeps_to_the_frontier_and_loses_nothing(seed, longest_s):
    tail, engines = speech_side(), {"a": monotone(), "b": monotone()}
    rng = random.Random(seed)
    asked = [(tail._recognizer, "transcribe"), *((engine, "draft") for engine in engines.values())]
    for engine, call in asked:
        before_calls(engine, call, lambda: time.sleep(rng.random() * longest_s))
    stream = AsynchronousStream(tail, {code: target_stream(e) for code, e in engines.items()})
    found = [*(stream.step(chunk) for chunk in chunks()), stream.finish()]
    for code in engines:
        closed = count = 0
        for step in (step.steps[code] for step in found):
            closed += sum(map(len, step.heard.sentences))
            count += len(step.units)
            assert not step.units or count <= closed + step.heard.live.accessible
        assert joined(step.steps[code].units for step in found) == TRANSLATION


def test_asynchronous_skips_stale_states_but_no_sentence():
    gate, updates = threading.Event(), []
    stream, _, engine = build(kind=AsynchronousStream)
    before_calls(engine, "draft", lambda: gate.wait(30))
    before_calls(stream.targets["a"], "update", lambda: updates.append(1))
    steps = [stream.step(chunk).only() for chunk in chunks()]
    assert not any(step.units for step in steps)  # recognition never waited for the translation
    gate.set()
    assert list(stream.finish().only().units) == TRANSLATION
    assert len(updates) < len(steps)


@pytest.mark.parametrize(
    ("agent_class", "stream_class", "delay"),
    [(OverlappedAgent, OverlappedStream, 1), (AsynchronousAgent, AsynchronousStream, 0)],
)
def test_an_agent_with_another_schedule_emits_the_same(tmp_path, agent_class, stream_class, delay):
    kind = type("Agent", (agent_class, FakeAgent), {})
    config = yaml_config(str(write_config(tmp_path)))
    kind.load_model(config)
    agent = kind(config)
    agent.set_target_language("de")
    audio = talk(20)
    outputs = [agent.process_chunk(audio[i : i + 13_600]) for i in range(0, len(audio), 13_600)]
    assert type(agent._session.stream) is stream_class
    outputs.append(agent.end_of_stream())
    assert joined(output.new_tokens for output in outputs[:delay]) == []
    expected = [translated(word(k), chinese=False) for k in range(20)]
    assert joined(output.new_tokens for output in outputs) == expected
