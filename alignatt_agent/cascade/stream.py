"""Translate one stream of audio chunks into append-only text."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from alignatt_agent.cascade.target_stream import TargetStream
from alignatt_agent.speech.live_tail import LiveTail
from alignatt_agent.types import Emission, SourceView, SpeechUpdate, Step
from alignatt_agent.types.stopwatch import added


@dataclass(frozen=True, slots=True)
class StreamStep:
    """Result of a chunk for all targets; each target is in ``steps`` or in ``failures``.

    Attributes:
        audio_s: seconds of audio since the start of the stream.
        heard: the update of speech recognition, the same for all targets.
        steps: steps by target; each includes the seconds of speech recognition.
        failures: errors by target; the next step includes the units decided before the error.
    """

    audio_s: float
    heard: SpeechUpdate
    steps: Mapping[str, Step]
    failures: Mapping[str, Exception]

    def only(self) -> Step:
        """Return the step of a stream with one target, or raise the error of that target."""
        # There is at most one error, because there is only one target.
        for error in self.failures.values():
            raise error
        (step,) = self.steps.values()
        return step


@dataclass(frozen=True, slots=True)
class SpeechStep:
    """Result of speech recognition for a chunk, and the time taken by each stage, in seconds."""

    audio_s: float
    heard: SpeechUpdate
    seconds: Mapping[str, float]


class Stream:
    """A live tail and the target streams that translate its words.

    The targets share the speech recognition. Each target translates in its own thread, and neither
    its output nor its failure affects other targets. If speech recognition fails, the audio waits
    for the next call. ``targets`` is keyed by language code.
    """

    def __init__(self, live_tail: LiveTail, targets: Mapping[str, TargetStream]) -> None:
        self._live_tail = live_tail
        self.targets = dict(targets)
        # The step of a target waits for its draft ahead, and no target waits for another.
        self._threads = ThreadPoolExecutor(2 * len(self.targets))

    def step(self, chunk: npt.NDArray[Any]) -> StreamStep:
        """Recognize a chunk, ``[samples]``, and emit as much as the policies accept.

        Raises:
            ValueError: the chunk is not a mono waveform of floating-point samples.
            EngineError: recognition failed; the audio is recognized with the next chunk.
        """
        speech = self._recognize(lambda: self._live_tail.push(chunk))
        return self._translate(speech)

    def finish(self) -> StreamStep:
        """Translate the rest of the talk; the call can be repeated after failures."""
        speech = self._recognize(self._live_tail.finish)
        return self._translate(speech)

    def drain(self, code: str) -> Emission:
        """Return the units that a failed call of a target had already decided to emit."""
        return self.targets[code].drain()

    def draft_ahead(self, view: SourceView) -> None:
        """Let the targets draft while the words are being aligned; see ``on_hypothesis``."""
        for target in self.targets.values():
            target.draft_ahead(view, self._threads)

    def _recognize(self, recognize: Callable[[], SpeechUpdate]) -> SpeechStep:
        live_tail = self._live_tail
        live_tail.watch.start()
        heard = recognize()
        seconds = live_tail.watch.read()
        return SpeechStep(live_tail.now, heard, seconds)

    def _translate(self, speech: SpeechStep) -> StreamStep:
        steps: dict[str, Step] = {}
        failures: dict[str, Exception] = {}
        for code, outcome in self._outcomes(speech).items():
            if isinstance(outcome, Step):
                steps[code] = outcome
            else:
                failures[code] = outcome
        return StreamStep(speech.audio_s, speech.heard, steps, failures)

    def _outcomes(self, speech: SpeechStep) -> dict[str, Step | Exception]:
        """Return each target's step, or its error."""
        # A single target needs no other thread.
        if len(self.targets) <= 1:
            return {code: attempt(target, speech) for code, target in self.targets.items()}
        running: dict[str, Future[Step | Exception]] = {}
        for code, target in self.targets.items():
            running[code] = self._threads.submit(attempt, target, speech)
        return {code: future.result() for code, future in running.items()}


def attempt(target: TargetStream, speech: SpeechStep) -> Step | Exception:
    """Return the target's step, including the seconds of speech recognition, or its error."""
    try:
        step = target.update(speech.heard, speech.audio_s)
    except Exception as error:
        return error
    return replace(step, seconds=added(step.seconds, speech.seconds))
