"""When the stages of a chunk run: in turn, overlapped, or each at its own pace.

The synchronisation regimes of the paper's figure on ASR and MT that share a GPU. In turn
(``sync``) is ``Booth`` itself, the deployed schedule and the only one of official scores.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from alignatt_agent.booth import Booth, BoothStep, Heard, Interpreter, added, interpret
from alignatt_agent.speech.live_tail import LiveTail
from alignatt_agent.stopwatch import STAGES, Stopwatch
from alignatt_agent.types import Emission, SourceView, SpeechUpdate, Step

NOTHING = SpeechUpdate((), SourceView((), 0))


class OverlappedBooth(Booth):
    """A booth that hears the next chunk while it translates this one (semi-asynchronous).

    Every call returns what the chunk before became, so the same units come one chunk later; the
    end returns what the last chunk became and the rest together.
    """

    in_turn = False

    def __init__(
        self,
        live_tail: LiveTail,
        interpreters: Mapping[str, Interpreter],
        watch: Stopwatch | None = None,
    ) -> None:
        super().__init__(live_tail, interpreters, watch)
        self._behind = ThreadPoolExecutor(1)
        self._translating: Future[BoothStep] | None = None

    def reset(self) -> None:
        """Forget the stream; waits for a translation that is under way."""
        self._collect()
        super().reset()

    def step(self, chunk: npt.NDArray[Any]) -> BoothStep:
        """Hear a chunk, ``[samples]``, and return what the chunk before became.

        Raises:
            ValueError: the chunk is not a mono waveform of floating-point samples.
            EngineError: it could not be heard; the audio is heard with the next chunk.
        """
        heard = self._hear(lambda: self._live_tail.push(chunk))
        before = self._collect()
        self._translating = self._behind.submit(self._follow, *heard)
        return before

    def finish(self) -> BoothStep:
        """Translate everything that was said to its end; may be repeated after failures.

        Raises:
            EngineError: the rest could not be heard; the call may be repeated.
        """
        heard = self._hear(self._live_tail.finish)
        before = self._collect()
        for name, step in before.steps.items():
            self.interpreters[name].keep(Emission(step.units, step.times))
        last = self._follow(*heard)
        steps = {name: _joined(before.steps.get(name), step) for name, step in last.steps.items()}
        return replace(last, steps=steps)

    def _collect(self) -> BoothStep:
        """Wait for what is being translated."""
        waiting, self._translating = self._translating, None
        if waiting is not None:
            return waiting.result()
        nothing = Step(0.0, NOTHING, None, (), 0, 0, dict.fromkeys(STAGES, 0.0))
        return BoothStep(0.0, NOTHING, dict.fromkeys(self.interpreters, nothing), {})


class AsynchronousBooth(Booth):
    """A booth whose stages never wait for one another (fully asynchronous), for live use.

    Calls return what was heard. An interpreter that is free translates the newest state; what it
    skipped of the open utterance is dropped, closed sentences never are. What it says is reported
    when it is ready, from a thread of its own, in order.

    Args:
        live_tail: the speech side.
        interpreters: by name, usually the code of the language.
        said: gets the name of an interpreter and its step, or the error that it met.
        watch: the clock of the live tail.
    """

    in_turn = False

    def __init__(
        self,
        live_tail: LiveTail,
        interpreters: Mapping[str, Interpreter],
        said: Callable[[str, Step | Exception], None],
        watch: Stopwatch | None = None,
    ) -> None:
        super().__init__(live_tail, interpreters, watch)
        self._said = said
        self._desk = threading.Condition()
        self._waiting: dict[str, Heard] = {}
        self._busy: set[str] = set()
        self._failed: set[str] = set()

    def reset(self) -> None:
        """Forget the stream, what waits for translation included."""
        with self._desk:
            self._waiting.clear()
        self._wait()
        super().reset()

    def step(self, chunk: npt.NDArray[Any]) -> BoothStep:
        """Hear a chunk, ``[samples]``; returns without steps, see ``said``.

        Raises:
            ValueError: the chunk is not a mono waveform of floating-point samples.
            EngineError: it could not be heard; the audio is heard with the next chunk.
        """
        return self._hand_over(lambda: self._live_tail.push(chunk))

    def finish(self) -> BoothStep:
        """Hear the rest and wait until everything has been translated and reported.

        No audio follows with which a language that failed could try again: it is asked once more.

        Raises:
            EngineError: the rest could not be heard; the call may be repeated.
        """
        step = self._hand_over(self._live_tail.finish)
        self._wait()
        if self._failed:
            self._hand_over(self._live_tail.finish)
            self._wait()
        return step

    def _hand_over(self, hear: Callable[[], SpeechUpdate]) -> BoothStep:
        heard, now, seconds = self._hear(hear)
        with self._desk:
            for name in self.interpreters:
                if name in self._waiting:
                    older, _, earlier = self._waiting[name]
                    fresh = replace(heard, sentences=older.sentences + heard.sentences)
                    self._waiting[name] = fresh, now, added(earlier, seconds)
                else:
                    self._waiting[name] = heard, now, seconds
                if name not in self._busy:
                    self._busy.add(name)
                    self._threads.submit(self._work, name)
        return BoothStep(now, heard, {}, {})

    def _work(self, name: str) -> None:
        """Translate until nothing waits."""
        try:
            while job := self._next(name):
                found = interpret(self.interpreters[name], *job)
                if isinstance(found, Step):
                    self._failed.discard(name)
                else:
                    self._failed.add(name)
                self._said(name, found)
        except BaseException:  # of ``said``
            self._next(name, stop=True)
            raise

    def _wait(self) -> None:
        """Wait until nothing is being translated."""
        with self._desk:
            self._desk.wait_for(lambda: not self._busy)

    def _next(self, name: str, stop: bool = False) -> Heard | None:
        """Take what waits for an interpreter, which is free when nothing does."""
        with self._desk:
            if not stop and name in self._waiting:
                return self._waiting.pop(name)
            self._busy.discard(name)
            self._desk.notify_all()
            return None


def _joined(before: Step | None, last: Step) -> Step:
    """Count the work of two steps as one; the units of the first are in the last already."""
    if before is None:
        return last
    return replace(
        last,
        accepted=before.accepted + last.accepted,
        passes=before.passes + last.passes,
        seconds=added(before.seconds, last.seconds),
    )
