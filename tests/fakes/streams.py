"""Streams on fake engines: a scripted recognizer, and word-by-word or random translators."""

import random

from alignatt_agent.cascade.stream import Stream
from alignatt_agent.cascade.target_stream import TargetStream
from alignatt_agent.policy import AlignAtt
from alignatt_agent.speech.live_tail import LiveTail
from alignatt_agent.translation.prompt import PromptBuilder
from alignatt_agent.translation.translator import Translator
from alignatt_agent.types import SAMPLE_RATE, EngineError, Word
from tests.fakes.agent import FakeTranslation, byte_tokenizer, translated
from tests.fakes.engine import random_engine
from tests.fakes.models import READOUT, PieceTokenizer, Prompts
from tests.fakes.speech import Script, Settings, clock_audio

# A word and its translation share a number; a bare number with a period ends no sentence.
TALK = "w0e w1e w2e. w3e w4e w5e w6e w7e w8e w9e w10e. w11e w12e"
SCRIPT = [Word(text, 0.3 + 0.5 * i, 0.3 + 0.5 * i + 0.4) for i, text in enumerate(TALK.split())]
TRANSLATION = [f" {translated(word.text, chinese=False)}" for word in SCRIPT]
SECONDS = 8.0
PIECES = ["</s>", " a", "b", ".", " c", "字"]


def speech_side(seed=0, error_rate=0.0, script=SCRIPT, watch=None, **settings):
    spoken = Script(script, random.Random(seed), error_rate)
    return LiveTail(spoken, spoken, "en", Settings(**settings), watch)


def monotone():
    return FakeTranslation(byte_tokenizer())


def target_stream(engine, watch=None, early_stop=True):
    """Translate with an engine that knows its tokens, or with random ones of five pieces."""
    known = isinstance(engine, FakeTranslation)
    tokenizer = engine.tokenizer if known else PieceTokenizer(PIECES)
    translator = Translator(
        engine=engine,
        prompt_builder=PromptBuilder(tokenizer, "English", "German") if known else Prompts(),
        tokenizer=tokenizer,
        readout=READOUT,
        policy=AlignAtt(border_margin=0, normalize="none", median_width=1),
        spaced=True,
        max_draft_tokens=64 if known else 8,
        early_stop=early_stop,
        watch=watch,
    )
    return TargetStream(translator, watch)


def noisy(seed, failure_rate=0.0):
    return target_stream(random_engine(seed, len(PIECES), failure_rate))


def build(engine=None, kind=Stream, watch=None, ahead=False, early_stop=True, **speech):
    """Return a stream with a single target ``a``, its recognizer and its engine."""
    engine = engine or monotone()
    tail = speech_side(watch=watch, **speech)
    stream = kind(tail, {"a": target_stream(engine, watch, early_stop=early_stop)})
    if ahead:
        tail.on_hypothesis = stream.draft_ahead
    return stream, tail._recognizer, engine


def chunks(seconds=SECONDS, chunk=0.5):
    total, size = int(seconds * SAMPLE_RATE), int(chunk * SAMPLE_RATE)
    return [clock_audio(i, min(total, i + size)) for i in range(0, total, size)]


def calls(stream, seconds=SECONDS, chunk=0.5):
    """Return all calls of a stream or live tail; the last one is repeated, as after failures."""
    feed = getattr(stream, "step", None) or stream.push
    return [*((feed, piece) for piece in chunks(seconds, chunk)), *[(stream.finish,)] * 6]


def emitted(stream, seconds=SECONDS, chunk=0.5):
    """Return the units of every call; a call that fails emits nothing."""
    found = []
    for call, *audio in calls(stream, seconds, chunk):
        try:
            found.append(call(*audio).only().units)
        except EngineError:
            found.append(())
    return found


def joined(outputs):
    return [unit for units in outputs for unit in units]
