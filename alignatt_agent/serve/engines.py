"""The engines that all speakers share: loaded, watched, started again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol

from alignatt_agent import cascade
from alignatt_agent.booth import Booth, BoothStep
from alignatt_agent.config.languages import Language
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.contexts import check_requests
from alignatt_agent.engine import pool
from alignatt_agent.serve.access import LATER, RefusedError
from alignatt_agent.types import AlignAttError, EngineError, FloatArray, Step

LOGGER = logging.getLogger(__name__)

LONGEST_PAUSE_S = 60.0
"""Between two attempts to start engines that do not start."""


class Listener(Protocol):
    """What speaks of what it hears; a ``Booth``, or one elsewhere."""

    @property
    def interpreters(self) -> Mapping[str, Any]:
        """By code of the language."""

    def step(self, chunk: FloatArray) -> BoothStep:
        """Hear a chunk, ``[samples]``."""

    def finish(self) -> BoothStep:
        """Translate everything that was said to its end; may be repeated after failures."""


class ServiceEngines(Protocol):
    """The engines behind a service, in this process (``SharedEngines``) or elsewhere.

    Attributes:
        resolved: the configuration.
        state: what they do.
        error: what happened last, if anything went wrong.
        restarts: how often engines that died were started again.
    """

    resolved: Resolved
    state: Literal["starting", "ok"]
    error: str | None
    restarts: int

    def healthy(self) -> bool:
        """Whether streams can be served now."""

    def booth(
        self,
        source: Language,
        targets: Sequence[Language],
        context: str,
        said: Callable[[str, Step | Exception], None],
        failed: Callable[[EngineError], None],
    ) -> AbstractAsyncContextManager[Listener]:
        """Hold the booth of a new stream; see ``SharedEngines.booth``."""

    def mend(self, died: Callable[[], None] = lambda: None) -> None:
        """See to it that engines which died are started again; returns at once."""

    def describe(self) -> dict[str, Any]:
        """Return what ``/health`` tells of them beside their state."""

    async def stop(self) -> None:
        """Give up mending."""


class Loader(Protocol):
    """Where engines come from."""

    def load(self, resolved: Resolved) -> cascade.Engines:
        """Start the engines, or those of them that died."""

    def alive(self) -> bool:
        """Whether all can serve requests."""


class PooledEngines:
    """The vLLM engines of this process."""

    def load(self, resolved: Resolved) -> cascade.Engines:
        """Start the engines, or those of them that died."""
        check_requests(resolved)
        return cascade.load_resolved(resolved)

    def alive(self) -> bool:
        """Whether all can serve requests."""
        return pool.all_alive()


class SharedEngines:
    """Engines for all streams of a server.

    Args:
        resolved: the configuration.
        loader: where they come from.

    Attributes:
        resolved: the configuration.
        state: what they do.
        error: what happened last, if anything went wrong.
        restarts: how often engines that died were started again.
    """

    def __init__(self, resolved: Resolved, loader: Loader) -> None:
        self.resolved = resolved
        self.restarts = 0
        self.state: Literal["starting", "ok"] = "starting"
        self.error: str | None = None
        self._loader = loader
        self._engines: cascade.Engines | None = None
        self._mending: asyncio.Task[None] | None = None

    def load(self) -> None:
        """Start the engines and compare the head sets with them; takes up to minutes.

        Raises:
            AlignAttError: they do not start or do not fit; the message says which and why.
        """
        self.state = "starting"
        engines = self._loader.load(self.resolved)
        self.resolved.check_shape(engines.num_layers, engines.num_heads)
        self._engines = engines
        self.state, self.error = "ok", None

    def healthy(self) -> bool:
        """Whether streams can be served now."""
        return self.state == "ok" and self._loader.alive()

    @contextlib.asynccontextmanager
    async def booth(
        self,
        source: Language,
        targets: Sequence[Language],
        context: str,
        said: Callable[[str, Step | Exception], None],
        failed: Callable[[EngineError], None],
    ) -> AsyncIterator[Booth]:
        """Hold the booth of a new stream.

        Args:
            source: the spoken language.
            targets: languages to translate into.
            context: names and terms of the talk.
            said: gets what ``schedule: async`` says when it is ready.
            failed: is told when this booth alone cannot go on; here all end with the engines.

        Raises:
            RefusedError: the engines are not there.
            HeadSetError: the configuration has no head set for a direction.
        """
        yield cascade.build_booth(
            self.resolved, self.engines(), source, targets, context=context, said=said
        )

    def engines(self) -> cascade.Engines:
        """Return the engines.

        Raises:
            RefusedError: they are not there.
        """
        if self._engines is None or not self.healthy():
            reason = f" ({self.error})" if self.error else ""
            raise RefusedError("engine", f"the engines are being started{reason}: try again", LATER)
        return self._engines

    def mend(self, died: Callable[[], None] = lambda: None) -> None:
        """See to it that engines which died are started again; returns at once.

        Args:
            died: called when they are found dead.
        """
        if self.state == "ok" and not self._loader.alive():
            LOGGER.error("an engine died; the engines are started again")
            self.state, self._engines = "starting", None
            self._mending = asyncio.create_task(self._mend())
            died()

    async def _mend(self) -> None:
        pause = 1.0
        while True:
            try:
                await asyncio.to_thread(self.load)
            except AlignAttError as error:
                self.error = str(error)
                LOGGER.error("they do not start: %s", error)
            except Exception as error:
                self.error = f"{type(error).__name__}: {error}"
                LOGGER.exception("they do not start")
            else:
                self.restarts += 1
                LOGGER.warning("the engines work again")
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def describe(self) -> dict[str, Any]:
        """Return what ``/health`` tells of them beside their state."""
        return {"restarts": self.restarts}

    async def stop(self) -> None:
        """Give up mending."""
        if self._mending is not None:
            self._mending.cancel()
