"""Run the stream of one speaker: queue audio, run steps in a thread, and deliver messages."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from operator import methodcaller
from typing import NamedTuple

import numpy as np

from alignatt_agent.audio.resampler import Resampler
from alignatt_agent.cascade.stream import Stream, StreamStep
from alignatt_agent.serve.access import BROKEN, RefusedError, gone, public
from alignatt_agent.serve.engines import EnginePool
from alignatt_agent.serve.messages import ENGINE_FAILED, Message, Status, StepError, of_step
from alignatt_agent.serve.remote import Call, RemoteStream, run
from alignatt_agent.types import SAMPLE_RATE, EngineError, FloatArray
from alignatt_agent.types.stopwatch import STAGES

LOGGER = logging.getLogger(__name__)

MAX_KEPT_S = 300.0
"""Maximum number of seconds of waiting audio while engines are restarted."""

MAX_WAITING_S = 5.0
"""Seconds of waiting audio above which the server stops reading, so that TCP slows the client."""

CATCH_UP_S = 1.0
"""Maximum audio per live step after an outage or a resumption, in seconds; short steps help to find
sentences. If the previous step took more than half of this time, twice its duration is allowed."""

ATTEMPTS = 3
"""Number of successive failed steps after which the stream ends."""


class _Failure(NamedTuple):
    """An error in a step: of one target, or of speech recognition (``None``)."""

    target: str | None
    error: Exception


@dataclass(eq=False)
class SpeakerStream:
    """One speaker's stream through the cascade, ``finished`` when all audio is translated."""

    stream: Stream | RemoteStream
    engines: EnginePool
    resampler: Resampler
    chunk_ms: int  # audio per step; on a slow machine, ``live`` steps process all waiting audio
    live: bool
    offset_s: float  # length of the talk before this stream
    deliver: Callable[[list[Message]], Awaitable[None]]  # receives the messages of each step
    threads: Executor
    said: dict[str, str] = field(default_factory=dict)  # text of the open sentence, by target

    def __post_init__(self) -> None:
        self._chunk_samples = self.chunk_ms * SAMPLE_RATE // 1000
        self._may_wait_s = MAX_WAITING_S
        # A resumed talk begins with the audio that the client has kept.
        self._longest_step_s = CATCH_UP_S if self.offset_s else MAX_WAITING_S
        self._queue: deque[FloatArray] = deque()
        self._waiting_samples = 0
        self._heard_samples = 0
        self._busy_s = 0.0  # time of all steps
        self._step_s = 0.0  # time of the last step
        self._ended = False
        self._suspended = False
        self.finished = False
        self._failures = 0
        self._loop = asyncio.get_running_loop()
        self._error: Exception | None = None  # error that ends the stream
        self._running: asyncio.Task[None] | None = None
        self._arrived = asyncio.Event()
        self._taken = asyncio.Event()

    @property
    def audio_s(self) -> float:
        """Length of the talk so far, in seconds."""
        return self.offset_s + self._heard_samples / SAMPLE_RATE

    async def feed(self, data: bytes) -> None:
        """Add the client's audio unless the stream has ended; wait while the queue is full."""
        if len(data) % 2:
            expected = "audio must consist of whole 16-bit samples"
            raise RefusedError("odd-bytes", f"{expected}, got {len(data)} bytes")
        samples = self.resampler(np.frombuffer(data, "<i2"))
        if not self._ended:
            self._put(samples)
        while self._waiting_samples > self._may_wait_s * SAMPLE_RATE:
            self._taken.clear()
            await self._taken.wait()

    def end(self) -> None:
        """End the audio; the waiting audio is still translated."""
        if not self._ended:
            self._ended = True
            self._put(self.resampler.finish())
            self._arrived.set()

    def suspend(self) -> None:
        """End the audio, but leave the open sentence for a stream that hears it again."""
        self._suspended = True
        self.end()

    def fail(self, error: Exception) -> None:
        """End the stream immediately; the waiting audio is not translated."""
        # The first error is the cause of later ones.
        self._error = self._error or error
        if self._running is not None:
            self._running.cancel()

    async def run(self) -> None:
        """Translate until the stream ends; raise ``RefusedError`` if the engines fail."""
        if self._error is not None:
            raise self._error
        self._running = asyncio.create_task(self._run())
        try:
            await self._running
        except asyncio.CancelledError:
            # ``fail`` cancels the task.
            if self._error is not None:
                raise self._error from None
            raise

    def _put(self, samples: FloatArray) -> None:
        if samples.size:
            self._queue.append(samples)
            self._waiting_samples += samples.size
            self._arrived.set()

    async def _run(self) -> None:
        while True:
            while self._waiting_samples < self._chunk_samples and not self._ended:
                self._arrived.clear()
                await self._arrived.wait()
            if not self._waiting_samples:
                break
            chunk = self._take()
            await self._attempt(methodcaller("step", chunk), chunk.size)
        # The next stream translates the open sentence.
        if self._suspended:
            return
        for _ in range(ATTEMPTS):
            if await self._attempt(methodcaller("finish")):
                self.finished = True
                break

    def _take(self) -> FloatArray:
        """Remove the audio of the next step from the queue and return it."""
        audio = np.concatenate(self._queue)
        longest = self._chunk_samples
        # Longer steps cost less per second of audio, so a slow machine catches up.
        if self.live:
            step_s = min(MAX_WAITING_S, max(self._longest_step_s, 2 * self._step_s))
            longest = max(longest, round(step_s * SAMPLE_RATE))
        chunk = audio[:longest]
        rest = audio[longest:]
        self._queue.clear()
        if rest.size:
            self._queue.append(rest)
        self._waiting_samples = rest.size
        self._taken.set()
        return chunk

    async def _attempt(self, call: Call, samples: int = 0) -> bool:
        """Run one step and deliver its messages; return whether every target succeeded."""
        begin = time.perf_counter()
        self._heard_samples += samples
        step, failures = await self._call(call)
        self._step_s = time.perf_counter() - begin
        self._busy_s += self._step_s
        engines_died = bool(failures) and not self.engines.healthy()
        messages: list[Message] = []
        if step is not None:
            messages += of_step(step, self.offset_s, self.said)
        if engines_died:
            messages.append(ENGINE_FAILED)
        else:
            messages += [_step_error(failure) for failure in failures]
        messages.append(self._status(step))
        await self.deliver(messages)
        if engines_died:
            await self._wait_for_engines(failures[0].error)
            return False
        # One target that always fails must not end the stream of the others.
        if step is not None and step.steps:
            self._failures = 0
        else:
            self._failures += 1
        if not failures:
            return True
        error = failures[0].error
        LOGGER.warning("a step failed and is repeated with the next audio: %s", error)
        if self._failures >= ATTEMPTS:
            raise RefusedError("engine", f"{error}; the stream ends", BROKEN)
        return False

    async def _call(self, call: Call) -> tuple[StreamStep | None, list[_Failure]]:
        """Run one step in a thread; return its result, if any, and its failures."""
        try:
            step: StreamStep = await self._loop.run_in_executor(
                self.threads, run, self.stream, call
            )
        except EngineError as error:
            return None, [_Failure(None, error)]
        except RefusedError:
            # The stream's replica was lost, and with it the state of the stream.
            raise
        except Exception as error:
            LOGGER.exception("a step failed")
            message = f"the step failed ({type(error).__name__}: {error})"
            raise RefusedError("internal", message, BROKEN) from error
        failures = [_Failure(target, error) for target, error in step.failures.items()]
        return step, failures

    async def _wait_for_engines(self, error: Exception) -> None:
        """Wait while engines are restarted; keep the state of the stream and new audio."""
        LOGGER.warning("a stream waits for the engines: %s", error)
        self._may_wait_s = MAX_KEPT_S
        self._longest_step_s = CATCH_UP_S
        if not await self.engines.revive():
            raise gone(error)
        self._may_wait_s = MAX_WAITING_S

    def _status(self, step: StreamStep | None) -> Status:
        """Return the status after a step; ``None`` stands for a step that failed."""
        stages: dict[str, int] = {}
        if step is not None and step.steps:
            for stage in STAGES:
                # Targets are translated in parallel, so the slowest target determines the time.
                seconds = [result.seconds.get(stage, 0.0) for result in step.steps.values()]
                stages[stage] = round(1000 * max(seconds))
        rtf = 0.0
        if self._heard_samples:
            heard_s = self._heard_samples / SAMPLE_RATE
            rtf = round(self._busy_s / heard_s, 2)
        return Status(
            audio_s=round(self.audio_s, 2),
            behind_s=round(self._waiting_samples / SAMPLE_RATE, 2),
            step_ms=round(1000 * self._step_s),
            stages=stages,
            rtf=rtf,
        )


def _step_error(failure: _Failure) -> StepError:
    message = f"{public(str(failure.error))}; the step will be repeated"
    return StepError(message=message, target=failure.target)
