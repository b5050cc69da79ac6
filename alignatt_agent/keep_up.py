"""Never behind: audio that waits is heard in one step, so that lag stays bounded."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from alignatt_agent.booth import Session
from alignatt_agent.speech.waveform import mono
from alignatt_agent.types import SAMPLE_RATE, Step

QUEUED_S = 0.005
"""A call that comes so soon after the last one returned was waiting for it.

Behind Simulstream 1.0.0's WebSocket server with a backlog, frames of 50 to 250 ms, on a busy
machine with two cores, 91 to 99 % of calls did (median 1 ms); one that does not is heard at once.
"""

PUT_OFF_S = 2.0
"""Longest audio that is put off."""


class KeepUp:
    """Hears one stream, and what waits of it in one step.

    A server that awaits one message after the other does not show its queue. Its calls do: one that
    comes at once was waiting, and more may be waiting behind it, so its audio is put off until a
    call takes its time, ``PUT_OFF_S`` have come together, or no call comes at all: then a thread
    of its own hears the rest, and the next call delivers what that gave.

    Args:
        session: the stream.
        lock: of the stream's owner, held during every call.
        patience_s: time without a call after which what was put off is heard.
        failed: is told of an error of that thread, and where it was.
        clock: seconds.
        timer: starts that thread.
    """

    def __init__(
        self,
        session: Session,
        lock: threading.RLock,
        patience_s: float,
        failed: Callable[[str, Exception], None],
        clock: Callable[[], float] = time.perf_counter,
        timer: Callable[[float, Callable[[], None]], threading.Timer] = threading.Timer,
    ) -> None:
        self._session = session
        self._lock = lock
        self._patience_s = patience_s
        self._failed = failed
        self._clock = clock
        self._new_timer = timer
        self._timer: threading.Timer | None = None
        self._returned: float | None = None
        self._waiting: list[npt.NDArray[Any]] = []
        self._heard: list[Step] = []

    def step(self, chunk: npt.NDArray[Any]) -> Sequence[Step]:
        """Hear a chunk, ``[samples]``, or put it off.

        Returns:
            Traces of what was heard since the last call, oldest first.

        Raises:
            ValueError: the chunk is not a mono waveform of floating-point samples.
            EngineError: an engine failed; the stream may go on.
        """
        with self._lock:
            self.stop()
            queued = self._returned is not None and self._clock() - self._returned < QUEUED_S
            try:
                self._waiting.append(mono(chunk).copy())
                waiting_s = sum(piece.size for piece in self._waiting) / SAMPLE_RATE
                if queued and waiting_s <= PUT_OFF_S:
                    self._timer = self._new_timer(self._patience_s, self._hear_rest)
                    self._timer.daemon = True
                    self._timer.start()
                else:
                    self._hear()
                return self._delivered()
            finally:
                self._returned = self._clock()

    def finish(self) -> Sequence[Step]:
        """Hear the rest and translate everything to its end.

        Raises:
            EngineError: an engine failed; the call may be repeated.
        """
        with self._lock:
            self.stop()
            if self._waiting:
                self._hear()
            self._heard.append(self._session.finish())
            return self._delivered()

    def stop(self) -> None:
        """Hear nothing more of its own accord."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _hear(self) -> None:
        """Hear what waits; should an engine fail, the session keeps it."""
        audio, self._waiting = np.concatenate(self._waiting), []
        self._heard.append(self._session.step(audio))

    def _hear_rest(self) -> None:
        with self._lock:
            if self._timer is None or not self._waiting:
                return  # a call came first
            try:
                self._hear()
            except Exception as error:
                self._failed("keep_up", error)

    def _delivered(self) -> Sequence[Step]:
        steps, self._heard = self._heard, []
        return steps
