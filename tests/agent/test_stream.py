"""Steps of a stream on fake engines: audio in, the translation of each word out once."""

import itertools
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignatt_agent.cascade.stream import Stream
from alignatt_agent.cascade.target_stream import TargetStream
from alignatt_agent.translation.captions import Captions
from alignatt_agent.types import EngineError, SourceView, StopReason, Word
from alignatt_agent.types.stopwatch import Stopwatch
from tests.fakes.engine import random_engine
from tests.fakes.models import before_calls, fail_calls
from tests.fakes.streams import (
    TALK,
    TRANSLATION,
    build,
    calls,
    chunks,
    clock_audio,
    emitted,
    joined,
    monotone,
    noisy,
    speech_side,
    target_stream,
)


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    chunk=st.sampled_from([0.25, 0.5, 1.5]),
    error_rate=st.sampled_from([0.0, 0.4]),
    stable_only=st.booleans(),
    early_stop=st.booleans(),
)
def test_drafting_ahead_changes_nothing(seed, chunk, error_rate, stable_only, early_stop):
    outputs = []
    for ahead in (False, True):
        speech = {"seed": seed, "error_rate": error_rate, "stable_only": stable_only}
        engine = random_engine(seed, 5)
        stream, _, _ = build(engine, ahead=ahead, early_stop=early_stop, **speech)
        outputs.append(emitted(stream, chunk=chunk))
    assert outputs[0] == outputs[1]


def test_a_draft_begins_while_words_are_timed():
    stream, _, engine = build(ahead=True, min_start_s=1.0)
    drafted, waited = threading.Event(), []
    before_calls(engine, "draft", drafted.set)
    before_calls(stream._live_tail._aligner, "align", lambda: waited.append(drafted.wait(30)))
    fail_calls(engine, "draft", {2})  # only one draft is requested
    assert stream.step(clock_audio(0, 24_000)).only().units == (" Wort0", " Wort1")
    assert waited == [True]


def test_a_step_traces_recognition_draft_decision_and_seconds():
    ticks = itertools.count()
    stream, _, _ = build(watch=Stopwatch(lambda: float(next(ticks))), min_start_s=2.0)
    spans = (0, 16_000), (16_000, 48_000)
    early, step = (stream.step(clock_audio(*span)).only() for span in spans)
    assert (early.audio_s, early.gated, early.units, early.heard.live.words) == (1.0, None, (), ())
    assert step.audio_s == 3.0
    words = [word.text for word in step.heard.live.words]
    assert words == ["w0e", "w1e", "w2e.", "w3e", "w4e", "w5e"]
    assert (step.heard.settled, step.heard.stable) == (0, 0)  # one hypothesis so far
    assert step.heard.live.accessible == 5  # the last word may continue
    gated = step.gated
    assert gated.accepted == ""
    assert "".join(gated.tokens) == "".join(TRANSLATION[:6])
    letters = [0] * 6 + [1] * 6 + [2] * 7 + [3] * 6 + [4] * 6  # a token each
    assert gated.words == (*letters, 5)
    assert gated.decision.accepted == gated.emitted == step.accepted == len(letters)
    assert (gated.decision.reason, gated.edge) == (StopReason.SOURCE_FRONTIER, 5)
    assert step.units == tuple(TRANSLATION[:5])
    assert step.passes == 0
    # Every reading of the clock is a second later; each engine is called once.
    assert step.seconds == {"asr": 1, "aligner": 1, "draft": 1, "replay": 0, "emission": 5}
    later = stream.step(clock_audio(48_000, 64_000)).only()
    assert [len(sentence) for sentence in later.heard.sentences] == [3]
    assert (later.heard.settled, later.heard.stable) == (0, 3)


@pytest.mark.parametrize(
    ("translating", "recognizing"),
    [
        *(({1}, ()), ({2, 3}, ()), ({4}, ()), ({5, 6}, ()), ({8}, ())),
        *(((), {1}), ((), {2, 3, 4}), ((), {9, 10})),
    ],
)
def test_failures_of_engines_lose_nothing(translating, recognizing):
    stream, recognizer, engine = build()
    fail_calls(engine, "draft", translating)
    fail_calls(recognizer, "transcribe", recognizing)
    said, failed = [], 0
    for call, *audio in calls(stream, chunk=0.85):
        try:
            said += call(*audio).only().units
        except EngineError:
            failed += 1
    assert said == TRANSLATION
    assert failed == len({*translating, *recognizing})


@pytest.mark.parametrize("catch", ["drain", "step"])
def test_units_decided_before_a_failure_are_delivered(catch):
    """The sentence is completed (call 1), then the draft for the live rest fails (call 2)."""
    script = [Word("w1e.", 0.1, 0.5), Word("w2e", 0.7, 1.0), Word("w3e", 1.1, 1.8)]
    stream, _, engine = build(script=script, hold_back_ms=1000)
    fail_calls(engine, "draft", {2})
    assert stream.step(clock_audio(0, 22400)).only().units == ()
    with pytest.raises(EngineError):
        stream.step(clock_audio(22400, 35200)).only()
    if catch == "drain":
        assert stream.drain("a").units == (" Wort1.",)
        assert stream.drain("a").units == ()
    expected = (" Wort2",) if catch == "drain" else (" Wort1.", " Wort2")
    assert stream.step(clock_audio(35200, 44000)).only().units == expected
    assert stream.finish().only().units == (" Wort3",)


def test_a_sentence_that_fails_twice_is_given_up():
    stream, _, engine = build()
    draft = engine.draft

    def refuse(request):
        prompt = request.prompt
        source = engine.tokenizer.decode(prompt.token_ids[: prompt.source_end])
        if source.endswith("w2e."):
            raise EngineError("this sentence cannot be translated")
        return draft(request)

    engine.draft = refuse
    outputs = joined(emitted(stream, chunk=0.85))
    assert outputs[-len(TRANSLATION[3:]) :] == TRANSLATION[3:]


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    failure_rate=st.sampled_from([0.0, 0.2]),
    commit=st.sampled_from(["agreed", "ended"]),
)
def test_each_target_emits_what_it_emits_alone(seed, failure_rate, commit):
    def streamed(targets):
        speech = speech_side(seed, 0.5, commit=commit)
        return [call(*audio) for call, *audio in calls(Stream(speech, targets))]

    def traces(found, code):
        own = (step.steps.get(code) for step in found)
        return [step and (step.units, step.accepted, step.gated) for step in own]

    together = streamed({code: noisy(seed + k, failure_rate) for k, code in enumerate("ab")})
    assert any(step.units for found in together for step in found.steps.values())
    for k, code in enumerate("ab"):
        alone = streamed({code: noisy(seed + k, failure_rate)})
        assert traces(together, code) == traces(alone, code)
    for found in together:
        assert all(s.heard.live.words == found.heard.live.words for s in found.steps.values())


def test_targets_translate_in_parallel():
    """With every draft, each engine waits until all of them were asked."""
    together, engines = threading.Barrier(3, timeout=30), {code: monotone() for code in "abc"}
    for engine in engines.values():
        before_calls(engine, "draft", together.wait)
    stream = Stream(speech_side(), {code: target_stream(e) for code, e in engines.items()})
    assert not any(stream.step(chunk).failures for chunk in chunks())


def test_no_target_waits_for_the_draft_ahead_of_another():
    engines = {code: monotone() for code in "abc"}
    targets = {code: target_stream(engine) for code, engine in engines.items()}
    done = threading.Event()
    waited = []
    for code in "ab":
        before_calls(engines[code], "draft", lambda: waited.append(done.wait(30)))
    update = targets["c"].update

    def updated(*arguments):
        step = update(*arguments)
        done.set()
        return step

    targets["c"].update = updated
    stream = Stream(speech_side(), targets)
    stream.draft_ahead(SourceView((Word("w0e", 0.1, 0.5), Word("w1e", 0.6, 1.0)), 1))
    stream.step(clock_audio(0, 32_000))
    assert waited
    assert all(waited)


def test_the_seconds_of_recognition_count_for_every_target():
    recognition, translation = (Stopwatch(map(float, itertools.count()).__next__) for _ in "ab")
    targets = {
        "de": target_stream(monotone(), watch=translation),
        "en": TargetStream(Captions()),
    }
    stream = Stream(speech_side(watch=recognition), targets)
    found = stream.step(clock_audio(0, 32_000))
    for code, draft in (("de", 1.0), ("en", 0.0)):
        seconds = found.steps[code].seconds
        assert (seconds["asr"], seconds["aligner"]) == (1.0, 1.0)
        assert seconds["draft"] == draft


def test_captions_are_the_sentences_as_they_were_recognized():
    outputs = emitted(Stream(speech_side(), {"en": TargetStream(Captions())}))
    assert (" w0e", " w1e", " w2e.") in outputs
    assert "".join(joined(outputs)) == f" {TALK}"
