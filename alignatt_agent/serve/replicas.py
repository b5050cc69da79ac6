"""The engines of a live server as Ray Serve's replicas, and the end of their line that asks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ray import serve

from alignatt_agent import cascade
from alignatt_agent.cluster.connection import check_versions
from alignatt_agent.cluster.priority import lowest_priority
from alignatt_agent.cluster.workers import tidy
from alignatt_agent.config.agent_config import AgentConfig
from alignatt_agent.config.languages import Language, language
from alignatt_agent.config.machine import versions
from alignatt_agent.config.quiet import quieten
from alignatt_agent.config.resolved import Resolved, resolve
from alignatt_agent.serve.access import LATER, RefusedError
from alignatt_agent.serve.engines import EngineLoader, EnginePool, SharedEngines
from alignatt_agent.serve.remote import (
    Placed,
    RemoteCall,
    RemoteStream,
    Reply,
    serve_calls,
)
from alignatt_agent.types import EngineError

LOGGER = logging.getLogger(__name__)

APP, PAGES, ENGINES = "alignatt", "pages", "engines"
"""Names of the application and its deployments."""

PLACE_S = 300.0
"""Longest time that a speaker waits for a replica that is being started."""

WATCH_S = 2.0
"""How often the state of the replicas is asked for, and metrics are passed on."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How many engines there are, and what each takes.

    Attributes:
        least: replicas that are always there.
        most: replicas there may be.
        speakers: talks that one hears at once.
        share: what one takes, as Ray's options name it.
        grow_s: time that talks have to wait before another replica is started.
        shrink_s: time that a replica has to be too many before it goes.
    """

    least: int
    most: int
    speakers: int
    share: Mapping[str, float]
    grow_s: float = 1.0
    shrink_s: float = 300.0


class Replica:
    """The engines of one device, and the talks that they hear.

    Args:
        config: the configuration.
        here: versions of the machine that asked for it.
        speakers: talks at once.
        loader: where engines come from.

    Raises:
        AlignAttError: the engines do not start, or other versions are installed here.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        here: Mapping[str, str],
        speakers: int,
        loader: Callable[[], EngineLoader],
    ) -> None:
        quieten()
        context = serve.get_replica_context()
        check_versions(here, versions(), context.replica_id.unique_id)
        self._name = context.replica_id.unique_id
        self._loader = loader()
        self._engines = SharedEngines(resolved_here(config), self._loader)
        with lowest_priority():
            self._engines.load()
        self._threads = ThreadPoolExecutor(speakers, "step")
        self._pages = serve.get_deployment_handle(PAGES, APP)

    async def talk(
        self, key: int, source: str, targets: Sequence[str], context: str
    ) -> AsyncIterator[Reply]:
        """Hear a talk to its end."""

        async def fetch() -> RemoteCall | None:
            work: RemoteCall | None = await self._pages.work.remote(key)
            return work

        spoken, wanted = language(source), [language(code) for code in targets]
        async with self._engines.open_stream(spoken, wanted, context, lambda _: None) as stream:
            yield Placed(self._name)
            async for reply in serve_calls(stream, fetch, self._threads, self._loader.alive):
                yield reply

    def check_health(self) -> None:
        """Serve starts another replica in place of one whose engines died.

        Raises:
            EngineError: they did.
        """
        if not self._loader.alive():
            raise EngineError("an engine died")

    def __del__(self) -> None:
        cascade.shutdown()
        tidy()


class RemoteEngines(EnginePool):
    """The replicas, as a service sees them.

    Args:
        resolved: the configuration.
        handle: of their deployment.
        scale: how many there are.

    Attributes:
        talks: under way, by key.
    """

    def __init__(self, resolved: Resolved, handle: Any, scale: Scale) -> None:
        super().__init__(resolved)
        self.talks: dict[int, RemoteStream] = {}
        self._handle = handle.options(stream=True)
        self._scale = scale
        self._opened = self._running = 0
        self._gone: set[str] = set()

    def healthy(self) -> bool:
        """Whether any replica can hear talks."""
        return self.state == "ok"

    @contextlib.asynccontextmanager
    async def open_stream(
        self,
        source: Language,
        targets: Sequence[Language],
        context: str,
        failed: Callable[[EngineError], None],
    ) -> AsyncIterator[RemoteStream]:
        """Open a stream on a replica with room, or on one that starts in time."""
        codes = [target.code for target in targets]
        talk = RemoteStream(codes, lambda error: self._lost(talk, error, failed))
        self._opened += 1
        key = self._opened
        self.talks[key] = talk
        replies = self._handle.talk.remote(key, source.code, codes, context)
        listening = asyncio.ensure_future(talk.listen(replies))
        placed = asyncio.ensure_future(talk.placed())
        try:
            await asyncio.wait(
                {listening, placed}, timeout=PLACE_S, return_when=asyncio.FIRST_COMPLETED
            )
            if talk.replica is None:
                raise RefusedError("busy", "no machine is free: try again later", LATER)
            yield talk
        finally:
            talk.close()
            placed.cancel()
            del self.talks[key]
            if talk.replica is None:
                replies.cancel()
                listening.cancel()

    def mend(self, died: Callable[[], None] = lambda: None) -> None:
        """Do nothing: Ray Serve restarts replicas."""

    async def stop(self) -> None:
        """Do nothing: nothing is being restarted here."""

    async def watch(self, tell: Callable[[], None]) -> None:
        """Ask for the state of the replicas, until cancelled; tell somebody now and then."""
        while True:
            with contextlib.suppress(Exception):  # the controller is being started again
                found = await asyncio.to_thread(serve.status)
                deployment = found.applications[APP].deployments[ENGINES]
                running = deployment.replica_states.get("RUNNING", 0)
                self._running = running
                self.state = "ok" if running else "starting"
                self.error = None if running else deployment.message or None
            tell()
            await asyncio.sleep(WATCH_S)

    def describe(self) -> dict[str, Any]:
        """Return talks under way by replica, for ``/health``."""
        placed = Counter(talk.replica for talk in self.talks.values() if talk.replica)
        return super().describe() | {
            "replicas": {
                "least": self._scale.least,
                "most": self._scale.most,
                "running": self._running,
                "talks": dict(placed),
            },
        }

    def _lost(
        self, talk: RemoteStream, error: EngineError, failed: Callable[[EngineError], None]
    ) -> None:
        if talk.replica is not None and talk.replica not in self._gone:
            self._gone.add(talk.replica)
            self.restarts += 1
        LOGGER.error("a talk broke off: %s", error)
        failed(error)


def resolved_here(config: Mapping[str, Any]) -> Resolved:
    """Find the configuration's checkpoints and head sets on this machine."""
    return resolve(AgentConfig.parse(dict(config), APP))
