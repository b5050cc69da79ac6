"""Run a stream on another machine: send its calls to a replica and receive the results.

During a talk, one request to the replica stays open. In this request, the replica fetches the
calls and answers them in order.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from alignatt_agent.cascade.stream import Stream
from alignatt_agent.serve.access import gone
from alignatt_agent.types import AlignAttError, EngineError

T = TypeVar("T")

Call = Callable[[Stream], Any]
"""A function that a replica calls with its stream; Ray can serialize any function."""

ANSWER_S = 120.0
"""Seconds to wait for the result of a call; Ray detects a dead replica much earlier."""


class RemoteStream:
    """A stream on a replica."""

    def __init__(self, lost: Callable[[EngineError], None]) -> None:
        self.calls: asyncio.Queue[Call | None] = asyncio.Queue()  # ``None`` ends the talk
        self._lost = lost  # called if the talk ends before ``close``
        self.failed: Callable[[Exception], None] = lambda _: None
        self._error: AlignAttError | None = None  # raised by further calls
        self._loop = asyncio.get_running_loop()
        self.replica: asyncio.Future[Any] = self._loop.create_future()  # the replica's name
        self._waiting: deque[Future[Any]] = deque()

    def call(self, call: Callable[[Stream], T]) -> T:
        """Make a call and return its result, or raise the replica's error."""
        result: Future[T] = Future()
        self._loop.call_soon_threadsafe(self._send, call, result)
        try:
            return result.result(ANSWER_S)
        except TimeoutError:
            raise EngineError(f"the replica has not answered for {ANSWER_S:g} s") from None

    async def listen(self, replies: AsyncIterator[Any]) -> None:
        """Receive the replica's name, then the results of the calls, until the talk ends."""
        error = EngineError("the replica of this talk has stopped")
        try:
            async for reply in replies:
                if self.replica.done():
                    # A replica answers the calls in their order.
                    _settle(self._waiting.popleft(), reply)
                else:
                    self.replica.set_result(reply)
        except Exception as cause:
            error = _lost(cause)
        finally:
            # After ``close``, the end of the replies is no failure.
            if self._error is None:
                self._error = gone(error)
                self._lost(error)
                self.failed(self._error)
            while self._waiting:
                _settle(self._waiting.popleft(), self._error)

    def close(self) -> None:
        """Release the replica."""
        self._error = self._error or EngineError("the talk has ended")
        self.calls.put_nowait(None)

    def _send(self, call: Call, result: Future[Any]) -> None:
        if self._error is not None:
            _settle(result, self._error)
        else:
            self._waiting.append(result)
            self.calls.put_nowait(call)


def run(stream: Stream | RemoteStream, call: Callable[[Stream], T]) -> T:
    """Make a call on a local or remote stream, but not in the event loop's thread."""
    if isinstance(stream, RemoteStream):
        return stream.call(call)
    return call(stream)


def _lost(cause: Exception) -> EngineError:
    """Return the error for the speaker of a talk whose replica failed."""
    # Ray wraps the error of a replica.
    inner = getattr(cause, "cause", None) or cause
    if isinstance(inner, EngineError):
        return inner
    return EngineError(f"the machine of this talk was lost ({type(inner).__name__})")


def _settle(result: Future[Any], value: Any) -> None:
    if isinstance(value, BaseException):
        result.set_exception(value)
    else:
        result.set_result(value)
