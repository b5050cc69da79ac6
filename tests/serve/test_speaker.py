"""A speaker's audio on its way through the live server: resampled, queued, heard in steps."""

import asyncio
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignatt_agent.audio.resampler import Resampler
from alignatt_agent.cascade.stream import StreamStep
from alignatt_agent.serve.access import RefusedError
from alignatt_agent.serve.speaker_stream import MAX_WAITING_S, SpeakerStream
from alignatt_agent.types import SAMPLE_RATE, EngineError, SourceView, SpeechUpdate
from tests.serve import live
from tests.serve.live import asynchronous


@settings(max_examples=40, deadline=None)
@given(
    rate=st.sampled_from([8000, 16000, 22050, 24000, 44100, 48000, 96000]),
    cuts=st.lists(st.integers(0, 30_000), max_size=12),
)
def test_it_does_not_matter_how_audio_is_cut(rate, cuts):
    samples = np.random.default_rng(0).normal(0, 3000, int(rate * 0.6)).astype("<i2")
    resampler, whole = Resampler(rate), Resampler(rate)
    edges = [0, *sorted(min(cut, len(samples)) for cut in cuts), len(samples)]
    parts = [resampler(samples[a:b]) for a, b in itertools.pairwise(edges)]
    found = np.concatenate([*parts, resampler.finish()])
    expected = np.concatenate([whole(samples), whole.finish()])
    assert found.dtype == np.float32
    assert abs(len(expected) - 0.6 * SAMPLE_RATE) <= 2
    assert np.array_equal(found, expected)


class FakeStream:
    """Notes the length of each step; waits for a permission before it returns."""

    def __init__(self, errors):
        self.sizes, self.finished, self._errors = [], 0, list(errors)
        self.permission, self.entered = threading.Semaphore(0), threading.Event()

    def step(self, chunk):
        self.entered.set()
        self.permission.acquire(timeout=20)  # a test that failed must not keep the process
        self.sizes.append(len(chunk))
        return self._answer()

    def finish(self):
        self.finished += 1
        return self._answer()

    def _answer(self):
        if self._errors and (error := self._errors.pop(0)):
            raise error
        update = SpeechUpdate((), SourceView((), 0))
        return StreamStep(sum(self.sizes) / SAMPLE_RATE, update, {}, {})


class Scene:
    """A stream on a fake stream: 100 ms steps of 1600 samples; it is its engines, too."""

    def __init__(self, live, healthy=True, permitted=0, revives=False, offset_s=0.0, errors=()):
        self._healthy, self._revives = healthy, revives
        self.inner, self.found = FakeStream(errors), []
        for _ in range(permitted):
            self.inner.permission.release()
        self.stream = SpeakerStream(
            stream=self.inner,
            engines=self,
            resampler=Resampler(SAMPLE_RATE),
            chunk_ms=100,
            live=live,
            offset_s=offset_s,
            deliver=self.deliver,
            threads=ThreadPoolExecutor(1),
        )
        self.running = asyncio.create_task(self.stream.run())

    async def deliver(self, found):
        self.found += found

    def healthy(self):
        return self._healthy

    async def revive(self):
        await asyncio.sleep(0.01)
        self._healthy = self._revives
        return self._revives

    async def busy(self):
        await asyncio.to_thread(self.inner.entered.wait, 10)

    async def end(self):
        """End the audio; returns the steps, in samples."""
        self.stream.end()
        await self.running
        return self.inner.sizes

    def told(self, kind):
        return [message for message in self.found if message.type == kind]


def audio(samples):
    return np.zeros(samples, "<i2").tobytes()


@pytest.mark.parametrize(("resumed_s", "steps"), [(0.0, [4]), (30.0, [1, 1, 1, 1])])
@asynchronous
async def test_what_waits_when_a_talk_is_resumed_comes_in_short_steps(resumed_s, steps):
    it = Scene(live=True, permitted=99, offset_s=resumed_s)
    await it.stream.feed(audio(4 * SAMPLE_RATE))
    assert await it.end() == [SAMPLE_RATE * seconds for seconds in steps]
    behind = [status.behind_s for status in it.told("status")[:-1]]  # the last is that of the end
    assert behind == [4.0 - sum(steps[: k + 1]) for k in range(len(steps))]


@asynchronous
async def test_a_client_that_sends_too_fast_is_not_read():
    it = Scene(live=True)
    second = audio(SAMPLE_RATE)
    await it.stream.feed(second)
    await it.busy()
    for _ in range(int(MAX_WAITING_S)):
        await it.stream.feed(second)
    more = asyncio.create_task(it.stream.feed(second))
    await asyncio.sleep(0.05)
    assert not more.done()
    it.inner.permission.release(20)
    await more
    sizes = await it.end()
    assert sum(sizes) == 7 * SAMPLE_RATE
    assert max(sizes) <= MAX_WAITING_S * SAMPLE_RATE


@asynchronous
async def test_a_step_that_fails_is_told_and_the_stream_goes_on():
    it = Scene(live=True, permitted=9, errors=[None, EngineError("no memory"), None])
    for _ in range(3):
        await it.stream.feed(audio(1600))
        while len(it.told("status")) < len(it.inner.sizes) or not it.inner.sizes:
            await asyncio.sleep(0.001)
    await it.end()
    told = [(error.message, error.final) for error in it.told("error")]
    assert told == [("no memory; the step will be repeated", False)]


@asynchronous
async def test_a_stream_ends_with_a_replica_that_is_not_revived():
    it = Scene(live=False, healthy=False, permitted=9, errors=[EngineError("no memory")])
    await it.stream.feed(audio(8000))
    with pytest.raises(RefusedError, match="being restarted"):
        await it.running
    assert len(it.inner.sizes) == 1


@pytest.mark.parametrize(
    ("live", "seconds", "longest"), [(False, MAX_WAITING_S + 0.5, 0.1), (True, 3, 1)]
)
@asynchronous
async def test_a_stream_waits_for_engines_that_are_restarted_and_keeps_all_audio(
    live, seconds, longest
):
    """What was said meanwhile comes in short steps."""
    killed = [EngineError("killed")]
    it = Scene(live, healthy=False, permitted=99, revives=True, errors=killed)
    await it.stream.feed(audio(1600))
    await it.busy()
    await it.stream.feed(audio(int(seconds * SAMPLE_RATE)))
    _, *sizes = await it.end()
    assert sum(sizes) == seconds * SAMPLE_RATE
    assert sizes[-3:] == 3 * [longest * SAMPLE_RATE]
    assert [(error.code, error.final) for error in it.told("error")] == [("engine", False)]


@asynchronous
async def test_the_end_is_tried_again():
    it = Scene(live=False, errors=[EngineError("no memory"), None])
    await it.end()
    assert it.inner.finished == 2


def lag(service):
    return service.metrics.registry.get_sample_value("alignatt_lag_p95_seconds")


def test_a_talk_is_translated_as_it_is_heard(client, service):
    found = live.speak(client, targets=["de", "zh"], detail="why", live=False)
    ready, *_, end = found
    assert ready["type"] == "ready"
    assert (ready["protocol"], ready["source"], ready["targets"]) == (2, "en", ["de", "zh"])
    assert ready["languages"][1] == {"code": "zh", "name": "Chinese", "spaced": False, "rtl": False}
    assert live.text_of(found) == live.GERMAN
    assert live.text_of(found, "zh") == live.CHINESE
    assert end == {"type": "end", "audio_s": live.WORDS / 2}
    steps = [message["audio_s"] for message in found if message["type"] == "status"]
    assert steps[:3] == [0.85, 1.7, 2.55]  # a file keeps its grid
    assert lag(service) == 0  # and waits on purpose
    early = [m for m in found if m["type"] == "said" and m["audio_s"] < live.WORDS / 2]
    assert len(early) > 6
    for message in early:
        for _, begin, finish, _ in message["units"]:
            assert 0 <= begin <= finish <= message["audio_s"]


@pytest.mark.parametrize(
    ("detail", "more"), [("text", set()), ("words", {"heard"}), ("why", {"heard", "draft"})]
)
def test_each_client_gets_the_detail_that_it_asks_for(client, service, detail, more):
    kinds = {message["type"] for message in live.speak(client, detail=detail)}
    assert kinds == {"ready", "said", "status", "end"} | more
    assert lag(service) > 0


def test_stop_without_audio(client):
    assert [message["type"] for message in live.speak(client, b"")] == ["ready", "status", "end"]
