"""Audio that waits is heard in one step, so that lag stays bounded."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np
import pytest

from alignatt_agent.keep_up import PUT_OFF_S, KeepUp
from alignatt_agent.types import SAMPLE_RATE, EngineError
from tests.agent.test_session import SCRIPT, TRANSLATION, build, joined
from tests.fakes.models import clock_audio


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Slow:
    """A session whose steps take a constant time, however much they hear."""

    clock: Clock
    step_s: float
    heard: list[tuple[float, float]] = field(default_factory=list)

    def step(self, chunk):
        self.clock.now += self.step_s
        self.heard.append((chunk.size / SAMPLE_RATE, self.clock.now))


class Never:
    """A timer for a clock that only moves when somebody computes."""

    daemon = True

    def __init__(self, seconds, call):
        self.seconds, self.call = seconds, call

    def start(self):
        pass

    def cancel(self):
        pass


def lags(chunk_s, step_s, minutes, keep_up):
    """Serve a stream as Simulstream's server does: one message after the other, as they come."""
    clock = Clock()
    session = Slow(clock, step_s)
    live = KeepUp(session, threading.RLock(), chunk_s, print, clock, Never)
    chunk = np.zeros(int(chunk_s * SAMPLE_RATE), np.float32)
    for k in range(int(60 * minutes / chunk_s)):
        clock.now = max(clock.now + 0.001, (k + 1) * chunk_s)
        if keep_up:
            live.step(chunk)
        else:
            session.step(chunk)
    found, heard_s = [], 0.0
    for seconds, done in session.heard:
        found.append(done - heard_s - chunk_s)  # of the chunk that waited longest
        heard_s += seconds
    return found


@pytest.mark.parametrize("chunk_s", [0.1, 0.25, 0.5, 0.85, 1.5])
def test_lag_is_bounded_at_a_real_time_factor_of_one_and_a_half(chunk_s):
    step_s = 1.5 * chunk_s
    assert max(lags(chunk_s, step_s, 10, keep_up=False)) == pytest.approx(300, rel=0.03)
    assert max(lags(chunk_s, step_s, 10, keep_up=True)) <= 3 + step_s


def test_a_stream_that_is_in_time_keeps_its_grid():
    assert lags(0.25, 0.2, 1, keep_up=True) == lags(0.25, 0.2, 1, keep_up=False)


def test_no_more_than_two_seconds_are_put_off():
    clock = Clock()
    session = Slow(clock, 0.01)
    live = KeepUp(session, threading.RLock(), 1, print, clock, Never)
    for _ in range(100):
        live.step(np.zeros(SAMPLE_RATE // 4, np.float32))
    assert max(seconds for seconds, _ in session.heard[1:]) == PUT_OFF_S + 0.25
    session.heard.clear()
    live.step(np.zeros(10 * SAMPLE_RATE, np.float32))
    assert len(session.heard) == 1


def test_what_is_no_waveform_is_refused_at_once():
    session = Slow(Clock(), 0.0)
    live = KeepUp(session, threading.RLock(), 1, print, session.clock, Never)
    good = np.zeros(100, np.float32)
    live.step(good)
    live.step(good)
    with pytest.raises(ValueError, match=r"got shape \[2, 8\]"):
        live.step(np.zeros((2, 8), np.float32))
    live.step(np.zeros(10 * SAMPLE_RATE, np.float32))
    assert [seconds * SAMPLE_RATE for seconds, _ in session.heard] == [100, 100 + 10 * SAMPLE_RATE]


def pieces(seconds):
    step = SAMPLE_RATE // 2
    return [clock_audio(k * step, (k + 1) * step) for k in range(int(2 * seconds))]


def test_what_was_put_off_is_heard_when_calls_stop():
    session, recognizer, _ = build(SCRIPT)
    lock, heard = threading.RLock(), threading.Event()
    inner = recognizer.transcribe

    def transcribe(*given):
        text = inner(*given)
        if len(recognizer.spans) == 2:
            heard.set()
        return text

    recognizer.transcribe = transcribe
    # The clock stands still: every call seems to have waited.
    live = KeepUp(session, lock, 0.001, pytest.fail, Clock())
    first, second, third = pieces(8)[:3]
    with lock:
        assert len(live.step(first)) == 1
        assert live.step(second) == []
    assert heard.wait(20)
    steps = live.step(third)
    assert [step.audio_s for step in steps] == [1.0]
    units = joined(step.units for step in steps)
    for piece in pieces(8)[3:]:
        units += joined(step.units for step in live.step(piece))
    units += joined(step.units for step in live.finish())
    assert units == TRANSLATION


def test_an_error_while_no_call_comes_loses_nothing():
    session, recognizer, _ = build(SCRIPT)
    recognizer.failing = {2}
    reports = []
    reported = threading.Event()

    def failed(where, error):
        reports.append((where, type(error)))
        reported.set()

    lock = threading.RLock()
    live = KeepUp(session, lock, 0.001, failed, Clock())
    first, *rest = pieces(8)
    with lock:
        units = joined(step.units for step in live.step(first))
        assert live.step(rest[0]) == []
    assert reported.wait(20)
    assert reports == [("keep_up", EngineError)]
    for piece in rest[1:]:
        units += joined(step.units for step in live.step(piece))
    units += joined(step.units for step in live.finish())
    assert units == TRANSLATION
