"""Talks that are heard elsewhere: what is asked of them, and what comes back.

Both ends of a talk's line. Whoever hears it fetches the work and sends an answer to each, in order,
so one request to a replica can last as long as a talk.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import partial
from typing import Any

from alignatt_agent.stream import Stream, StreamStep
from alignatt_agent.types import (
    EngineError,
    FloatArray,
    GatedDraft,
    SourceView,
    Word,
)

RELEASE_S = 0.2
"""Delay between the message to a speaker whose talk was lost and the failure of its steps."""


@dataclass(frozen=True, slots=True)
class RemoteCall:
    """A call of a stream, or of one of its translators.

    Attributes:
        target: code of the language of the translator; ``None`` for the stream.
        method: its name.
        arguments: of the call.
    """

    target: str | None
    method: str
    arguments: tuple[Any, ...]

    def do(self, stream: Stream) -> tuple[Any, GatedDraft | None]:
        """Return the result, and the latest draft that the translator gated."""
        if self.target is None:
            return getattr(stream, self.method)(*self.arguments), None
        translator = stream.targets[self.target].translator
        return getattr(translator, self.method)(*self.arguments), translator.gated


@dataclass(frozen=True, slots=True)
class Placed:
    """The talk has a replica from now on; the first thing that comes back."""

    replica: str


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a piece of work gave; an exception is raised where it was asked for."""

    value: Any


Reply = Placed | CallResult


class RemoteStream:
    """The end of a talk that asks; looks like a ``Stream``.

    Args:
        targets: codes of the languages.
        failed: is told when the talk cannot go on.

    Attributes:
        targets: by code of the language, for clients that recognise speech themselves.
        replica: who hears it, once it is placed.
    """

    def __init__(
        self,
        targets: Sequence[str],
        failed: Callable[[EngineError], None],
    ) -> None:
        self.targets: Mapping[str, Any] = {code: _RemoteTarget(self, code) for code in targets}
        self.replica: str | None = None
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._works: asyncio.Queue[RemoteCall | None] = asyncio.Queue()
        self._asked: deque[Future[Any]] = deque()
        self._placed = asyncio.Event()
        self._over = False

    def step(self, chunk: FloatArray) -> StreamStep:
        """Hear a chunk, ``[samples]``; from any thread but that of the event loop."""
        return self._step("step", chunk)

    def finish(self) -> StreamStep:
        """Translate everything that was said to its end."""
        return self._step("finish")

    def ask(self, work: RemoteCall) -> tuple[Any, GatedDraft | None]:
        """Have something done and wait for it.

        Raises:
            EngineError: an engine failed, or whoever heard the talk is gone.
        """
        answer: Future[Any] = Future()
        self._loop.call_soon_threadsafe(self._ask, work, answer)
        found: tuple[Any, GatedDraft | None] = answer.result()
        return found

    async def work(self) -> RemoteCall | None:
        """Return what is to be done next; ``None`` when the talk is over."""
        return await self._works.get()

    async def listen(self, replies: AsyncIterator[Reply]) -> None:
        """Take what comes back until it ends."""
        error = EngineError("whoever heard this talk has stopped")
        try:
            async for reply in replies:
                if isinstance(reply, Placed):
                    self.replica = reply.replica
                    self._placed.set()
                else:
                    _settle(self._asked.popleft(), reply.value)
        except asyncio.CancelledError:
            raise
        except Exception as cause:
            error = lost(cause)
        finally:
            asked_to = not self._over
            self._over = True
            if asked_to:
                self._failed(error)
                await asyncio.sleep(RELEASE_S)
            while self._asked:
                _settle(self._asked.popleft(), error)

    async def placed(self) -> None:
        """Wait until somebody hears it."""
        await self._placed.wait()

    def close(self) -> None:
        """Let whoever hears it go."""
        self._over = True
        self._works.put_nowait(None)

    def _step(self, method: str, *arguments: Any) -> StreamStep:
        found, _ = self.ask(RemoteCall(None, method, arguments))
        assert isinstance(found, StreamStep)
        return found

    def _ask(self, work: RemoteCall, answer: Future[Any]) -> None:
        if self._over:
            _settle(answer, EngineError("the talk is over"))
        else:
            self._asked.append(answer)
            self._works.put_nowait(work)


class _RemoteTarget:
    """Has a translator."""

    def __init__(self, talk: RemoteStream, target: str) -> None:
        self.translator = _Translator(talk, target)


class _Translator:
    """A translator elsewhere, as far as ``wires.mt`` needs one."""

    def __init__(self, talk: RemoteStream, target: str) -> None:
        self._talk, self._target = talk, target
        self.gated: GatedDraft | None = None

    def update(self, view: SourceView) -> Any:
        return self._ask("update", view)

    def complete(self, words: Sequence[Word]) -> Any:
        return self._ask("complete", words)

    def _ask(self, method: str, *arguments: Any) -> Any:
        found, self.gated = self._talk.ask(RemoteCall(self._target, method, arguments))
        return found


async def serve_calls(
    stream: Stream,
    fetch: Callable[[], Awaitable[RemoteCall | None]],
    threads: Executor,
    alive: Callable[[], bool],
) -> AsyncIterator[Reply]:
    """Run the calls that ``fetch`` returns on a replica, and yield their results in order.

    Args:
        stream: recognizes and translates.
        fetch: returns the next call, ``None`` at the end.
        threads: where calls run.
        alive: whether the engines can go on.

    Raises:
        EngineError: they cannot.
    """
    loop = asyncio.get_running_loop()
    while (work := await fetch()) is not None:
        try:
            value: Any = await loop.run_in_executor(threads, partial(work.do, stream))
        except Exception as error:
            value = error
        if isinstance(value, EngineError) and not alive():
            raise value
        yield CallResult(value)


def lost(cause: Exception) -> EngineError:
    """Return what a speaker is told when a talk breaks off."""
    inner = getattr(cause, "cause", None) or cause
    if isinstance(inner, EngineError):
        return inner
    return EngineError(f"the machine that heard this talk is gone ({type(inner).__name__})")


def _settle(answer: Future[Any], value: Any) -> None:
    if not answer.done():
        if isinstance(value, BaseException):
            answer.set_exception(value)
        else:
            answer.set_result(value)
