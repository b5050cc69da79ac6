"""One ear and many tongues: each says what it would say alone, whatever happens to the others."""

import itertools
import random
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignatt_agent.booth import Booth, Interpreter, Session
from alignatt_agent.policy import AlignAtt
from alignatt_agent.speech.live_tail import LiveTail
from alignatt_agent.stopwatch import Stopwatch
from alignatt_agent.translation.captions import Captions
from alignatt_agent.translation.translator import Translator
from alignatt_agent.types import SAMPLE_RATE, Access, EngineError, Word
from tests.fakes.models import (
    READOUT,
    MonotoneEngine,
    PieceTokenizer,
    Prompts,
    RandomEngine,
    ScriptAligner,
    ScriptRecognizer,
    Settings,
    clock_audio,
)

TALK = "we show it. then we read the long paper and leave. good bye"
SCRIPT = [Word(text, 0.3 + 0.5 * i, 0.3 + 0.5 * i + 0.4) for i, text in enumerate(TALK.split())]
SECONDS, CHUNK = 8.0, 0.5


def hearing(seed=0, error_rate=0.5, watch=None):
    recognizer = ScriptRecognizer(SCRIPT, random.Random(seed), error_rate)
    return LiveTail(recognizer, ScriptAligner(recognizer), "en", Settings(), watch), recognizer


def interpreter(seed=0, failure_rate=0.0, engine=None, watch=None, access=None):
    tokenizer = engine.tokenizer if engine else PieceTokenizer([" a", "b", ".", " c", "字"])
    chosen = engine or RandomEngine(5, seed, failure_rate)
    policy = AlignAtt(border_margin=0, normalize="none", median_width=1)
    prompts = engine or Prompts()
    return Interpreter(
        Translator(chosen, prompts, tokenizer, READOUT, policy, True, 8, watch=watch), watch, access
    )


def chunks():
    size = int(CHUNK * SAMPLE_RATE)
    return [clock_audio(i, i + size) for i in range(0, int(SECONDS * SAMPLE_RATE), size)]


def calls(hearer):
    """Every call of a stream; the end is tried again after failures."""
    return [*((hearer.step, chunk) for chunk in chunks()), *[(hearer.finish,)] * 6]


def alone(session):
    """What each call says; ``None`` where it fails."""
    said = []
    for call, *audio in calls(session):
        try:
            said.append(session_units(call(*audio)))
        except EngineError:
            said.append(None)
    return said


def session_units(step):
    return step.units, step.accepted, step.judged


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), failure_rate=st.sampled_from([0.0, 0.2]))
def test_each_says_what_it_says_in_a_session_of_its_own(seed, failure_rate):
    names = ("de", "it", "zh")
    booth = Booth(
        hearing(seed)[0],
        {name: interpreter(seed + k, failure_rate) for k, name in enumerate(names)},
    )
    together = [call(*audio) for call, *audio in calls(booth)]
    assert any(step.steps[name].units for step in together for name in step.steps)
    for k, name in enumerate(names):
        session = Session(hearing(seed)[0], interpreter(seed + k, failure_rate))
        mine = [
            session_units(step.steps[name]) if name in step.steps else None for step in together
        ]
        assert mine == alone(session)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    hold_back=st.sampled_from([0.0, 250.0, 900.0]),
    stable_only=st.booleans(),
)
def test_a_language_may_wait_longer_at_the_ear_that_all_share(seed, hold_back, stable_only):
    """Where sentences close without the hold-back, as if the ear itself had waited."""

    def tail(**waits):
        recognizer = ScriptRecognizer(SCRIPT, random.Random(seed), 0.5)
        config = Settings(commit="agreed", **waits)
        return LiveTail(recognizer, ScriptAligner(recognizer), "en", config)

    own = Access(hold_back, stable_only)
    interpreters = {"de": interpreter(seed), "zh": interpreter(seed, access=own)}
    booth = Booth(tail(), interpreters)
    together = [call(*audio) for call, *audio in calls(booth)]
    for name, waits in {
        "de": {},
        "zh": {"hold_back_ms": hold_back, "stable_only": stable_only},
    }.items():
        session = Session(tail(**waits), interpreter(seed))
        mine = [step.steps[name] for step in together]
        assert [session_units(step) for step in mine] == alone(session)
        assert all(
            step.heard.live.words == both.heard.live.words
            for step, both in zip(mine, together, strict=True)
        )


def test_one_that_fails_never_stops_the_others_and_loses_nothing():
    engines = {name: MonotoneEngine(PieceTokenizer()) for name in ("de", "it")}
    engines["it"].failing = {2, 3, 9}
    booth = Booth(hearing(error_rate=0)[0], {k: interpreter(engine=v) for k, v in engines.items()})
    said, failed = {"de": [], "it": []}, []
    for call, *audio in calls(booth):
        step = call(*audio)
        failed += step.failures
        assert set(step.steps) | set(step.failures) == {"de", "it"}
        for name, found in step.steps.items():
            said[name] += found.units
            assert found.heard is step.heard
    assert failed == ["it"] * 3
    assert said["de"] == said["it"] == [word.text.upper() for word in SCRIPT]


def test_they_translate_side_by_side():
    """Every engine waits until all of them were asked."""
    together = threading.Barrier(3, timeout=30)

    class Waiting(MonotoneEngine):
        def draft(self, *given):
            if self.calls == 0:
                together.wait()
            return super().draft(*given)

    booth = Booth(
        hearing(error_rate=0)[0],
        {name: interpreter(engine=Waiting(PieceTokenizer())) for name in "abc"},
    )
    assert not any(booth.step(chunk).failures for chunk in chunks())


def test_what_cannot_be_heard_reaches_the_caller_and_is_heard_later():
    tail, recognizer = hearing(error_rate=0)
    recognizer.failing = {3}
    booth = Booth(tail, {"de": interpreter(engine=MonotoneEngine(PieceTokenizer()))})
    said = []
    for number, chunk in enumerate(chunks(), 1):
        if number == 3:
            with pytest.raises(EngineError, match="recogniser failed"):
                booth.step(chunk)
        else:
            said += booth.step(chunk).steps["de"].units
    said += booth.finish().steps["de"].units
    assert said == [word.text.upper() for word in SCRIPT]


def test_the_hearing_counts_for_everybody():
    ear, tongue = (Stopwatch(map(float, itertools.count()).__next__) for _ in "ab")
    tail, _ = hearing(error_rate=0, watch=ear)
    engine = MonotoneEngine(PieceTokenizer())
    both = {"de": interpreter(engine=engine, watch=tongue), "en": Interpreter(Captions())}
    booth = Booth(tail, both, ear)
    step = booth.step(clock_audio(0, 32_000))
    for name, draft in (("de", 1.0), ("en", 0.0)):
        seconds = step.steps[name].seconds
        assert (seconds["asr"], seconds["aligner"]) == (1.0, 1.0)
        assert seconds["draft"] == draft


def test_captions_are_the_sentences_as_they_were_heard():
    booth = Booth(hearing(error_rate=0)[0], {"en": Interpreter(Captions())})
    said = [call(*audio).steps["en"].units for call, *audio in calls(booth)]
    assert ["we", "show", "it."] in [list(units) for units in said]
    assert [unit for units in said for unit in units] == TALK.split()


def test_a_booth_can_start_again():
    engines = [MonotoneEngine(PieceTokenizer()) for _ in range(2)]
    booth = Booth(
        hearing(error_rate=0)[0], {str(k): interpreter(engine=e) for k, e in enumerate(engines)}
    )
    first = [call(*audio).steps["0"].units for call, *audio in calls(booth)]
    booth.step(chunks()[0])
    booth.reset()
    assert [call(*audio).steps["0"].units for call, *audio in calls(booth)] == first
