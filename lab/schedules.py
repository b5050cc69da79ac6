"""Alternative orders of the stages, from the paper's figure about ASR and MT on one GPU.

The product runs the stages one after the other (``Stream``), as official scores require. The agents
of this module run a configuration of the product in another order. Set ``type`` in the YAML file to
``lab.schedules.OverlappedAgent`` or ``lab.schedules.AsynchronousAgent``.
"""

import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any

from alignatt_agent.agent import AlignAttAgent
from alignatt_agent.cascade.stream import SpeechStep, Stream, StreamStep, attempt
from alignatt_agent.cascade.target_stream import TargetStream
from alignatt_agent.speech.live_tail import LiveTail
from alignatt_agent.types import Emission, SourceView, SpeechUpdate, Step
from alignatt_agent.types.stopwatch import STAGES, added

NOTHING_HEARD = SpeechUpdate((), SourceView((), 0))
NOTHING = Step(0.0, NOTHING_HEARD, None, (), 0, 0, dict.fromkeys(STAGES, 0.0))


class OverlappedStream(Stream):
    """Recognizes a chunk while it translates the previous one, which delays units by one chunk."""

    def __init__(self, live_tail: LiveTail, targets: Mapping[str, TargetStream]) -> None:
        super().__init__(live_tail, targets)
        self._translating: Future[StreamStep] | None = None
        self._undelivered = dict.fromkeys(self.targets, Emission())

    def finish(self) -> StreamStep:
        """Translate the rest of the talk, including the last chunk; the call can be repeated."""
        for code, step in self._collect().steps.items():
            self._undelivered[code] += Emission(step.units, step.times)
        last = super()._translate(self._recognize(self._live_tail.finish))
        steps: dict[str, Step] = {}
        for code, step in last.steps.items():
            emission = self._take(code) + Emission(step.units, step.times)
            steps[code] = replace(step, units=emission.units, times=emission.times)
        return replace(last, steps=steps)

    def drain(self, code: str) -> Emission:
        """Wait for the running translation, and return undelivered units."""
        if self._translating is not None:
            wait([self._translating])
        return self._take(code) + super().drain(code)

    def _take(self, code: str) -> Emission:
        emission, self._undelivered[code] = self._undelivered[code], Emission()
        return emission

    def _translate(self, speech: SpeechStep) -> StreamStep:
        before = self._collect()
        self._translating = self._threads.submit(super()._translate, speech)
        return before

    def _collect(self) -> StreamStep:
        """Wait for the running translation, and return its result."""
        waiting, self._translating = self._translating, None
        if waiting is not None:
            return waiting.result()
        return StreamStep(0.0, NOTHING_HEARD, dict.fromkeys(self.targets, NOTHING), {})


class AsynchronousStream(Stream):
    """Recognition and translation never wait for each other.

    An idle target translates the newest state. It skips older states of the open utterance, but no
    closed sentence. ``step`` returns the finished steps; ``finish`` waits for all steps.
    """

    def __init__(self, live_tail: LiveTail, targets: Mapping[str, TargetStream]) -> None:
        super().__init__(live_tail, targets)
        self._lock = threading.Lock()
        self._lanes = {code: ThreadPoolExecutor(1) for code in self.targets}
        self._running: dict[str, Future[None]] = {}  # the latest call of each target
        self._waiting: dict[str, SpeechStep] = {}
        self._ready: dict[str, Step] = {}
        self._failures: dict[str, Exception] = {}

    def finish(self) -> StreamStep:
        """Translate the rest of the talk; the call can be repeated after failures."""
        return self._translate(self._recognize(self._live_tail.finish), last=True)

    def drain(self, code: str) -> Emission:
        """Wait for the running translations, and return undelivered units."""
        wait(self._running.values())
        ready = self._ready.pop(code, NOTHING)
        return Emission(ready.units, ready.times) + super().drain(code)

    def _translate(self, speech: SpeechStep, last: bool = False) -> StreamStep:
        """Return the finished steps; the units of a failed target wait for the next call."""
        for code, lane in self._lanes.items():
            with self._lock:
                older = self._waiting.get(code)
                self._waiting[code] = speech if older is None else _newest(older, speech)
            self._running[code] = lane.submit(self._work, code)
        if last:
            wait(self._running.values())
        with self._lock:
            failures, self._failures = self._failures, {}
            done = [code for code in self.targets if code not in failures]
            steps = {code: self._ready.pop(code, NOTHING) for code in done}
        return StreamStep(speech.audio_s, speech.heard, steps, failures)

    def _work(self, code: str) -> None:
        """Translate the waiting state, unless the previous call translated it."""
        with self._lock:
            speech = self._waiting.pop(code, None)
        if speech is None:
            return
        outcome = attempt(self.targets[code], speech)
        with self._lock:
            if isinstance(outcome, Step):
                self._ready[code] = _joined(self._ready.get(code, NOTHING), outcome)
            else:
                self._failures[code] = outcome


def _newest(older: SpeechStep, newer: SpeechStep) -> SpeechStep:
    """Return the newer state, with the closed sentences and seconds of both states."""
    sentences = older.heard.sentences + newer.heard.sentences
    seconds = added(older.seconds, newer.seconds)
    return replace(newer, heard=replace(newer.heard, sentences=sentences), seconds=seconds)


def _joined(before: Step, last: Step) -> Step:
    """Join two steps of a target."""
    return replace(
        last,
        heard=replace(last.heard, sentences=before.heard.sentences + last.heard.sentences),
        units=before.units + last.units,
        accepted=before.accepted + last.accepted,
        passes=before.passes + last.passes,
        seconds=added(before.seconds, last.seconds),
        times=before.times + last.times,
    )


class OverlappedAgent(AlignAttAgent):
    """The agent on ``OverlappedStream``."""

    _schedule: type[Stream] = OverlappedStream

    def _open_stream(self, session: Any) -> Stream:
        is_new = session.stream is None
        stream = super()._open_stream(session)
        if is_new:
            # Drafting ahead would run at the same time as the translation of another chunk.
            stream._live_tail.on_hypothesis = None
            session.stream = self._schedule(stream._live_tail, stream.targets)
        return session.stream


class AsynchronousAgent(OverlappedAgent):
    """The agent on ``AsynchronousStream``."""

    _schedule = AsynchronousStream
