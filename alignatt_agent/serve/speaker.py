"""Run the stream of one speaker: queue audio, run steps in a thread, and deliver messages."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from operator import methodcaller

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
        self._grid = self.chunk_ms * SAMPLE_RATE // 1000
        self._may_wait_s = MAX_WAITING_S
        self._longest_s = CATCH_UP_S if self.offset_s else MAX_WAITING_S
        self._queue: deque[FloatArray] = deque()
        self._waiting = 0  # number of samples in the queue
        self._heard = 0
        self._busy_s = self._step_s = 0.0
        self._ended = self._suspended = self.finished = False
        self._failures = 0
        self._loop = asyncio.get_running_loop()
        self._error: Exception | None = None  # error that ends the stream
        self._running: asyncio.Task[None] | None = None
        self._arrived, self._taken = asyncio.Event(), asyncio.Event()

    @property
    def audio_s(self) -> float:
        """Length of the talk so far, in seconds."""
        return self.offset_s + self._heard / SAMPLE_RATE

    async def feed(self, data: bytes) -> None:
        """Add the client's audio unless the stream has ended; wait while the queue is full."""
        if len(data) % 2:
            expected = "audio must consist of whole 16-bit samples"
            raise RefusedError("odd-bytes", f"{expected}, got {len(data)} bytes")
        samples = self.resampler(np.frombuffer(data, "<i2"))
        self._put(samples[:0] if self._ended else samples)
        while self._waiting > self._may_wait_s * SAMPLE_RATE:
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
            if self._error is not None:
                raise self._error from None
            raise

    def _put(self, samples: FloatArray) -> None:
        if samples.size:
            self._queue.append(samples)
            self._waiting += samples.size
            self._arrived.set()

    async def _run(self) -> None:
        while True:
            while self._waiting < self._grid and not self._ended:
                self._arrived.clear()
                await self._arrived.wait()
            if not self._waiting:
                break
            chunk = self._take()
            await self._attempt(methodcaller("step", chunk), chunk.size)
        if self._suspended:
            return
        for _ in range(ATTEMPTS):
            if await self._attempt(methodcaller("finish")):
                self.finished = True
                break

    def _take(self) -> FloatArray:
        """Remove the audio of the next step from the queue and return it."""
        audio = np.concatenate(self._queue)
        live_s = min(MAX_WAITING_S, max(self._longest_s, 2 * self._step_s))
        longest = max(self._grid, round(live_s * SAMPLE_RATE)) if self.live else self._grid
        chunk, rest = audio[:longest], audio[longest:]
        self._queue.clear()
        if rest.size:
            self._queue.append(rest)
        self._waiting = rest.size
        self._taken.set()
        return chunk

    async def _attempt(self, call: Call, samples: int = 0) -> bool:
        """Run one step and deliver its messages; return whether every target succeeded."""
        begin = time.perf_counter()
        self._heard += samples
        step: StreamStep | None = None
        failures: list[tuple[str | None, Exception]] = []  # failed target (or ``None``), error
        try:
            made: StreamStep = await self._loop.run_in_executor(
                self.threads, run, self.stream, call
            )
            step = made
            failures += made.failures.items()
        except EngineError as error:
            failures.append((None, error))
        except RefusedError:  # the stream's replica was lost
            raise
        except Exception as error:
            LOGGER.exception("a step failed")
            message = f"the step failed ({type(error).__name__}: {error})"
            raise RefusedError("internal", message, BROKEN) from error
        seconds = time.perf_counter() - begin
        self._busy_s, self._step_s = self._busy_s + seconds, seconds
        dead = bool(failures) and not self.engines.healthy()
        found = [] if step is None else of_step(step, self.offset_s, self.said)
        again = [
            StepError(message=f"{public(str(cause))}; the step will be repeated", target=target)
            for target, cause in failures
        ]
        found += [ENGINE_FAILED] if dead else again
        await self.deliver([*found, self._status(seconds, step)])
        if dead:
            await self._interrupt(failures[0][1])
            return False
        self._failures = 0 if step is not None and step.steps else self._failures + 1
        if failures:
            (_, first), *_ = failures
            LOGGER.warning("a step failed and is repeated with the next audio: %s", first)
            if self._failures >= ATTEMPTS:
                raise RefusedError("engine", f"{first}; the stream ends", BROKEN)
        return not failures

    async def _interrupt(self, error: Exception) -> None:
        """Wait while engines are restarted; keep the state of the stream and new audio."""
        LOGGER.warning("a stream waits for the engines: %s", error)
        self._may_wait_s, self._longest_s = MAX_KEPT_S, CATCH_UP_S
        if not await self.engines.revive():
            raise gone(error)
        self._may_wait_s = MAX_WAITING_S

    def _status(self, seconds: float, step: StreamStep | None) -> Status:
        heard_s = self._heard / SAMPLE_RATE
        steps = step.steps.values() if step is not None else ()
        # Targets are translated in parallel, so the slowest target determines the time.
        slowest = {
            stage: max(own.seconds.get(stage, 0.0) for own in steps) for stage in STAGES if steps
        }
        return Status(
            audio_s=round(self.audio_s, 2),
            behind_s=round(self._waiting / SAMPLE_RATE, 2),
            step_ms=round(1000 * seconds),
            stages={stage: round(1000 * took) for stage, took in slowest.items()},
            rtf=round(self._busy_s / heard_s, 2) if heard_s else 0.0,
        )
