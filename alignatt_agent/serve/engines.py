"""Start, supervise, and restart the engines that all speakers share."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any, Literal

from alignatt_agent.cascade.engines import Engines
from alignatt_agent.cascade.open_stream import open_stream
from alignatt_agent.cascade.runtime import Runtime
from alignatt_agent.cascade.stream import Stream
from alignatt_agent.config.languages import Language
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.serve.access import LATER, RefusedError
from alignatt_agent.serve.remote import RemoteStream
from alignatt_agent.types import AlignAttError, EngineError

LOGGER = logging.getLogger(__name__)

LONGEST_PAUSE_S = 60.0
"""Longest pause between two attempts to restart the engines, in seconds."""


class EnginePool(ABC):
    """The engines of a service, in this process or on replicas."""

    def __init__(self, resolved: Resolved) -> None:
        self.resolved = resolved
        self.restarts = 0  # number of restarts after an engine died
        self.state: Literal["starting", "ok"] = "starting"
        self.error: str | None = None  # the last error

    def healthy(self) -> bool:
        """Return whether streams can be served now."""
        return self.state == "ok"

    @abstractmethod
    def open_stream(
        self, source: Language, targets: Sequence[Language], context: str
    ) -> AbstractAsyncContextManager[Stream | RemoteStream]:
        """Open a stream on the engines; raise ``RefusedError`` if no engines are available."""

    def restart_dead(self) -> None:  # noqa: B027 - Ray restarts replicas
        """Restart dead engines in the background."""

    async def revive(self) -> bool:
        """Wait for the restart of dead engines; return whether their streams can continue."""
        return False

    def describe(self) -> dict[str, Any]:
        """Return details of the engines for ``/health``."""
        return {"restarts": self.restarts}

    def stop(self) -> None:  # noqa: B027
        """Stop restarting engines."""


class _Latest:
    """Proxy for the current engine of a role, so that streams keep their state during a restart."""

    def __init__(self, shared: SharedEngines, role: str) -> None:
        self._shared = shared
        self._role = role

    def __getattr__(self, name: str) -> Any:
        engines = self._shared._engines
        if engines is None:
            raise EngineError("the engines are being started")
        engine = getattr(engines, self._role)
        return getattr(engine, name)


class SharedEngines(EnginePool):
    """The vLLM engines of this process, shared by all streams of a server."""

    def __init__(self, resolved: Resolved, runtime: Runtime) -> None:
        super().__init__(resolved)
        self._runtime = runtime
        self._engines: Engines | None = None
        self._restarting: asyncio.Task[None] | None = None

    def load(self) -> None:
        """Start missing or dead engines and check the head sets. This may take minutes."""
        self.state = "starting"
        self._runtime.check(self.resolved)
        self._engines = self._runtime.load(self.resolved)
        self.state = "ok"
        self.error = None

    def healthy(self) -> bool:
        """Return whether streams can be served now."""
        return super().healthy() and self._runtime.alive()

    @contextlib.asynccontextmanager
    async def open_stream(
        self, source: Language, targets: Sequence[Language], context: str
    ) -> AsyncIterator[Stream]:
        """Open a stream on the engines of this process."""
        if self._engines is None or not self.healthy():
            reason = ""
            if self.error:
                reason = f" ({self.error})"
            raise RefusedError("engine", f"the engines are being started{reason}: try again", LATER)
        aligner = None
        if self._engines.aligner:
            aligner = self._latest("aligner")
        # The stream survives a restart, because it asks for the current engines at each call.
        engines = replace(
            self._engines,
            asr=self._latest("asr"),
            translation=self._latest("translation"),
            aligner=aligner,
        )
        yield open_stream(self.resolved, engines, source, targets, context)

    def _latest(self, role: str) -> Any:
        return _Latest(self, role)

    def restart_dead(self) -> None:
        """Restart dead engines in the background."""
        if self.state == "ok" and not self._runtime.alive():
            LOGGER.error("an engine died; restarting the engines")
            self.state = "starting"
            # Steps fail immediately instead of waiting for a dead engine.
            self._engines = None
            self._restarting = asyncio.create_task(self._restart())

    async def revive(self) -> bool:
        """Wait for the restart of dead engines; return whether all engines work."""
        self.restart_dead()
        if self._restarting is not None:
            await asyncio.wait({self._restarting})
        return self.healthy()

    async def _restart(self) -> None:
        pause_s = 1.0
        while True:
            try:
                await asyncio.to_thread(self.load)
                self.restarts += 1
                LOGGER.warning("the engines are running again")
                return
            except Exception as error:
                self.error = str(error)
                # The messages of other libraries may need the name of their class.
                if not isinstance(error, AlignAttError):
                    self.error = f"{type(error).__name__}: {error}"
                LOGGER.error("the engines failed to start: %s", self.error)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def stop(self) -> None:
        """Stop restarting engines."""
        if self._restarting is not None:
            self._restarting.cancel()
