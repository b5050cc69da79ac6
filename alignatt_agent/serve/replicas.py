"""Run the engines of a live server as replicas of Ray Serve."""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ray import serve

from alignatt_agent.cascade.runtime import Runtime
from alignatt_agent.cluster.connection import check_versions
from alignatt_agent.cluster.priority import lowest_priority
from alignatt_agent.cluster.workers import tidy
from alignatt_agent.config.agent_config import AgentConfig
from alignatt_agent.config.languages import Language, language
from alignatt_agent.config.quiet import quieten
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.machine.packages import versions
from alignatt_agent.serve.access import LATER, RefusedError
from alignatt_agent.serve.engines import EnginePool, SharedEngines
from alignatt_agent.serve.remote import Call, RemoteStream
from alignatt_agent.types import EngineError

LOGGER = logging.getLogger(__name__)

APP = "alignatt"
"""Name of the application."""

PAGES = "pages"
"""Name of the deployment that serves pages and stores rooms."""

ENGINES = "engines"
"""Name of the deployment whose replicas run engines."""

PLACE_S = 300.0
"""Maximum number of seconds that a speaker waits for a replica to start."""

WATCH_S = 2.0
"""Seconds between checks of the replicas' state."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The number of replicas, and the resources of each replica as Ray options."""

    least: int
    most: int
    speakers: int  # maximum number of concurrent talks per replica
    share: Mapping[str, float]
    shrink_s: float = 300.0  # time after which a surplus replica shuts down


class Replica:
    """The engines of one device, for several talks; ``here`` contains the head node's versions."""

    def __init__(
        self,
        config: Mapping[str, Any],
        here: Mapping[str, str],
        speakers: int,
        engines: Callable[[Resolved, Runtime], SharedEngines],
    ) -> None:
        self._runtime = Runtime()
        quieten()
        self._name = serve.get_replica_context().replica_id.unique_id
        check_versions(here, versions(), self._name)
        resolved = self._runtime.resolve(AgentConfig.parse(dict(config), APP))
        self._engines = engines(resolved, self._runtime)
        with lowest_priority():
            self._engines.load()
        self._threads = ThreadPoolExecutor(speakers, "step")
        self._pages = serve.get_deployment_handle(PAGES, APP)

    async def talk(
        self, key: int, source: str, targets: Sequence[str], context: str
    ) -> AsyncIterator[Any]:
        """Yield the name of this replica, then the result or error of each call in a talk."""
        loop = asyncio.get_running_loop()
        spoken = language(source)
        target_languages = [language(code) for code in targets]
        async with self._engines.open_stream(spoken, target_languages, context) as stream:
            yield self._name
            while True:
                call: Call | None = await self._pages.next_call.remote(key)
                if call is None:
                    return
                try:
                    result = await loop.run_in_executor(self._threads, call, stream)
                except Exception as error:
                    # Dead engines end the talk, because Serve replaces this replica.
                    if isinstance(error, EngineError) and not self._engines.healthy():
                        raise
                    result = error
                yield result

    def check_health(self) -> None:
        """Raise an error if an engine has died, so that Serve replaces this replica."""
        if not self._engines.healthy():
            raise EngineError("an engine died")

    def __del__(self) -> None:
        self._runtime.close()
        tidy()


class RemoteEngines(EnginePool):
    """The engines of all replicas, accessed through the handle of their deployment."""

    def __init__(self, config: Mapping[str, Any], handle: Any, scale: Scale) -> None:
        super().__init__(Runtime().resolve(AgentConfig.parse(dict(config), APP)))
        self.talks: dict[int, RemoteStream] = {}  # open talks by key
        self._handle = handle.options(stream=True)
        self._scale = scale
        self._opened = 0  # number of talks so far
        self._running = 0  # number of replicas that can serve talks
        self._lost_replicas: set[str] = set()

    @contextlib.asynccontextmanager
    async def open_stream(
        self, source: Language, targets: Sequence[Language], context: str
    ) -> AsyncIterator[RemoteStream]:
        """Open a stream on a replica that has a free slot or starts in time."""
        codes = [target.code for target in targets]
        talk = RemoteStream(lambda error: self._lost(talk, error))
        self._opened += 1
        key = self._opened
        self.talks[key] = talk
        replies = self._handle.talk.remote(key, source.code, codes, context)
        listening = asyncio.ensure_future(talk.listen(replies))
        try:
            # If the request fails, ``listening`` ends without a replica.
            started = {listening, talk.replica}
            await asyncio.wait(started, timeout=PLACE_S, return_when=asyncio.FIRST_COMPLETED)
            if not talk.replica.done():
                raise RefusedError("busy", "all replicas are in use: try again later", LATER)
            yield talk
        finally:
            talk.close()
            del self.talks[key]
            # A replica ends its request by itself after ``close``.
            if not talk.replica.done():
                replies.cancel()
                listening.cancel()

    async def watch(self) -> None:
        """Check the state of the replicas until canceled."""
        while True:
            with contextlib.suppress(Exception):  # e.g. while the controller restarts
                status = await asyncio.to_thread(serve.status)
                deployment = status.applications[APP].deployments[ENGINES]
                self._running = deployment.replica_states.get("RUNNING", 0)
                if self._running:
                    self.state = "ok"
                    self.error = None
                else:
                    self.state = "starting"
                    self.error = deployment.message or None
            await asyncio.sleep(WATCH_S)

    def describe(self) -> dict[str, Any]:
        """Return the numbers of restarts, replicas, and talks per replica for ``/health``."""
        talks_of_replica: Counter[str] = Counter()
        for talk in self.talks.values():
            if talk.replica.done():
                talks_of_replica[talk.replica.result()] += 1
        replicas = {
            "least": self._scale.least,
            "most": self._scale.most,
            "running": self._running,
            "talks": talks_of_replica,
        }
        return super().describe() | {"replicas": replicas}

    def _lost(self, talk: RemoteStream, error: EngineError) -> None:
        if talk.replica.done():
            name = talk.replica.result()
            # All talks of a replica are lost together, but it is one restart.
            if name not in self._lost_replicas:
                self._lost_replicas.add(name)
                self.restarts += 1
        LOGGER.error("a talk was lost: %s", error)
