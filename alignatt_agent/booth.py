"""Who follows what is heard: one interpreter in a session, several in a booth."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy.typing as npt

from alignatt_agent.speech.hypothesis import seen
from alignatt_agent.speech.live_tail import LiveTail
from alignatt_agent.stopwatch import Stopwatch
from alignatt_agent.types import Access, Emission, Judged, SourceView, SpeechUpdate, Step, Word


class Follower(Protocol):
    """What makes units of what is heard: a translator, or captions of the speech itself.

    Attributes:
        judged: the draft that the latest update judged and its decision, if any.
        emitted: tokens emitted so far.
    """

    judged: Judged | None
    emitted: int

    @property
    def steps(self) -> int:
        """Forward passes so far."""

    def reset(self) -> None:
        """Forget the open utterance."""

    def prepare(self, view: SourceView) -> None:
        """Do ahead what ``update`` will probably need; changes nothing that is said."""

    def update(self, view: SourceView) -> Emission:
        """Say what the open utterance allows."""

    def complete(self, words: Sequence[Word]) -> Emission:
        """Say a closed sentence to its end."""


class Interpreter:
    """Follows a live tail into one language.

    An exception of an engine leaves it usable: closed sentences wait for the next call, and units
    that were decided before the failure come with its step, or with ``drain``.

    Args:
        translator: makes units.
        watch: the clock of the translator.
        access: when words may be relied on, if otherwise than the live tail has it.

    Attributes:
        translator: makes units.
    """

    def __init__(
        self,
        translator: Follower,
        watch: Stopwatch | None = None,
        access: Access | None = None,
    ) -> None:
        self.translator = translator
        self._watch = watch or Stopwatch()
        self._access = access
        self._prepared: Future[None] | None = None
        self.reset()

    def reset(self) -> None:
        """Forget the stream."""
        self._await_prepared()
        self.translator.reset()
        self._passes = self.translator.steps
        self._sentences: deque[tuple[Word, ...]] = deque()
        self._retried = False
        self._undelivered = Emission()

    def follow(self, heard: SpeechUpdate, audio_s: float) -> Step:
        """Translate what was heard; the step's seconds are those of the translation alone.

        Args:
            heard: the next update; every one has to come once, in order.
            audio_s: seconds of audio heard since the start of the stream.

        Raises:
            EngineError: an engine failed; the stream may go on with the next update.
        """
        translator = self.translator
        emitted = translator.emitted
        if self._access is not None:
            heard = seen(heard, self._access)
        begin = self._watch.now()
        if self._await_prepared():
            self._watch.shorten("draft", begin)
        else:
            self._watch.start()
        self._sentences += heard.sentences
        while self._sentences:
            self._undelivered += self._complete(self._sentences[0])
            self._sentences.popleft()
        self._undelivered += translator.update(heard.live)
        emission = self.drain()
        before, self._passes = self._passes, translator.steps
        return Step(
            audio_s=audio_s,
            heard=heard,
            judged=translator.judged,
            units=emission.units,
            accepted=translator.emitted - emitted,
            passes=self._passes - before,
            seconds=self._watch.read(),
            times=emission.times,
        )

    def prepare(self, view: SourceView, threads: Executor) -> None:
        """Begin what the next update will probably need, beside what is still to be heard.

        Args:
            view: the words that were just recognised, and how many will probably be accessible.
            threads: where it runs.
        """
        self._await_prepared()
        if not self._sentences:  # else the live words follow on what is still to be said
            self._watch.start()
            self._prepared = threads.submit(self.translator.prepare, view)

    def _await_prepared(self) -> bool:
        waiting, self._prepared = self._prepared, None
        if waiting is None:
            return False
        error = waiting.exception()  # shows again when the update needs the same
        if error is not None and not isinstance(error, Exception):
            raise error
        return True

    def drain(self) -> Emission:
        """Return units that a failed call decided but could not deliver."""
        emission, self._undelivered = self._undelivered, Emission()
        return emission

    def keep(self, emission: Emission) -> None:
        """Take back units that could not be passed on; they come first with the next step."""
        self._undelivered = emission + self._undelivered

    def _complete(self, sentence: tuple[Word, ...]) -> Emission:
        """Finish a sentence; one that fails twice is given up, so that the stream can go on."""
        try:
            emission = self.translator.complete(sentence)
        except Exception:
            if self._retried:
                self._sentences.popleft()
                self.translator.reset()
            self._retried = not self._retried
            raise
        self._retried = False
        return emission


Heard = tuple[SpeechUpdate, float, Mapping[str, float]]
"""What was heard, the seconds of audio so far, and the seconds of each stage of the hearing."""


@dataclass(frozen=True, slots=True)
class BoothStep:
    """What a chunk became in every language; each is either in ``steps`` or in ``failures``.

    Attributes:
        audio_s: seconds of audio heard since the start of the stream.
        heard: what the chunk gave on the speech side, the same for all.
        steps: by name of the interpreter; the seconds of the hearing count in each.
        failures: errors of interpreters that could not follow this chunk. They stay in the booth:
            what one had decided before comes with its next step, and it tries again then.
    """

    audio_s: float
    heard: SpeechUpdate
    steps: Mapping[str, Step]
    failures: Mapping[str, Exception]


class Booth:
    """One ear, many tongues: a live tail and the interpreters that follow it.

    They translate side by side, each in a thread, and say what each would say in a session of its
    own. One that fails never stops the others.

    Args:
        live_tail: the speech side.
        interpreters: by name, usually the code of the language.
        watch: the clock of the live tail.

    Attributes:
        interpreters: by name.
    """

    in_turn: ClassVar[bool] = True
    """Whether nothing is translated while the next chunk is heard: only then can be prepared."""

    def __init__(
        self,
        live_tail: LiveTail,
        interpreters: Mapping[str, Interpreter],
        watch: Stopwatch | None = None,
    ) -> None:
        self._live_tail = live_tail
        self.interpreters = dict(interpreters)
        self._watch = watch or Stopwatch()
        self._threads = ThreadPoolExecutor(max(1, len(self.interpreters)))
        if self.in_turn:
            live_tail.foresee = self._prepare
        live_tail.reset()

    def reset(self) -> None:
        """Forget the stream."""
        self._live_tail.reset()
        for interpreter in self.interpreters.values():
            interpreter.reset()

    def step(self, chunk: npt.NDArray[Any]) -> BoothStep:
        """Hear a chunk, ``[samples]``, and translate what it allows.

        Raises:
            ValueError: the chunk is not a mono waveform of floating-point samples.
            EngineError: it could not be heard; the audio is heard with the next chunk.
        """
        return self._advance(lambda: self._live_tail.push(chunk))

    def finish(self) -> BoothStep:
        """Translate everything that was said to its end; may be repeated after failures.

        Raises:
            EngineError: the rest could not be heard; the call may be repeated.
        """
        return self._advance(self._live_tail.finish)

    def _advance(self, hear: Callable[[], SpeechUpdate]) -> BoothStep:
        return self._follow(*self._hear(hear))

    def _hear(self, hear: Callable[[], SpeechUpdate]) -> Heard:
        self._watch.start()
        heard = hear()
        return heard, self._live_tail.now, self._watch.read()

    def _prepare(self, view: SourceView) -> None:
        for interpreter in self.interpreters.values():
            interpreter.prepare(view, self._threads)

    def _follow(self, heard: SpeechUpdate, now: float, seconds: Mapping[str, float]) -> BoothStep:
        several = len(self.interpreters) > 1
        each = (self._threads.map if several else map)(
            lambda interpreter: interpret(interpreter, heard, now, seconds),
            self.interpreters.values(),
        )
        steps: dict[str, Step] = {}
        failures: dict[str, Exception] = {}
        for name, found in zip(self.interpreters, each, strict=True):
            if isinstance(found, Step):
                steps[name] = found
            else:
                failures[name] = found
        return BoothStep(now, heard, steps, failures)


def interpret(
    interpreter: Interpreter, heard: SpeechUpdate, now: float, seconds: Mapping[str, float]
) -> Step | Exception:
    """Follow; return the step, the seconds of the hearing added, or the error."""
    try:
        step = interpreter.follow(heard, now)
    except Exception as error:
        return error
    return replace(step, seconds=added(step.seconds, seconds))


def added(one: Mapping[str, float], two: Mapping[str, float]) -> dict[str, float]:
    """Add the seconds of every stage."""
    return {stage: one[stage] + two[stage] for stage in one}


class Session:
    """One stream: audio chunks in, append-only translation out; a booth with one interpreter.

    An exception of an engine leaves the session usable: audio and closed sentences wait for the
    next call, and units that were decided before the failure come with its step, or with
    ``drain``.

    Args:
        live_tail: the speech side.
        interpreter: the translation side.
        watch: the clock of the live tail.
        booth: when its stages run, see ``schedule``.
    """

    def __init__(
        self,
        live_tail: LiveTail,
        interpreter: Interpreter,
        watch: Stopwatch | None = None,
        booth: type[Booth] = Booth,
    ) -> None:
        self._interpreter = interpreter
        self._booth = booth(live_tail, {"": interpreter}, watch)

    @property
    def translator(self) -> Follower:
        """The translation side."""
        return self._interpreter.translator

    def reset(self) -> None:
        """Forget the stream."""
        self._booth.reset()

    def step(self, chunk: npt.NDArray[Any]) -> Step:
        """Hear a chunk, ``[samples]``, and translate what it allows.

        Raises:
            ValueError: the chunk is not a mono waveform of floating-point samples.
            EngineError: an engine failed; the stream may go on.
        """
        return _only(self._booth.step(chunk))

    def finish(self) -> Step:
        """Translate everything that was said to its end.

        Raises:
            EngineError: an engine failed; the call may be repeated.
        """
        return _only(self._booth.finish())

    def drain(self) -> Emission:
        """Return units that a failed call decided but could not deliver."""
        return self._interpreter.drain()


def _only(step: BoothStep) -> Step:
    for error in step.failures.values():
        raise error
    (found,) = step.steps.values()
    return found
