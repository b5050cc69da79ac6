"""The live server on Ray Serve: the application is the ingress, engines are replicas behind it.

A talk is one request to a replica, for as long as the talk lasts. So Serve's own rules do what a
scheduler would: a new talk goes where there is room, replicas come and go with the talks under way,
and one that is to go finishes its talks. Rooms are where the pages are: viewers always reach them,
and what was said outlives the replica that said it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Literal

from ray import serve
from ray.exceptions import RayError
from ray.serve.config import AutoscalingConfig
from ray.serve.schema import LoggingConfig
from ray.util import metrics as ray_metrics
from starlette.applications import Starlette

from alignatt_agent import cascade
from alignatt_agent.cluster.connection import ClusterError, check_versions, one_line
from alignatt_agent.config.agent_config import AgentConfig
from alignatt_agent.config.languages import Language, language
from alignatt_agent.config.machine import versions
from alignatt_agent.config.quiet import quieten
from alignatt_agent.config.resolved import Resolved, resolve
from alignatt_agent.serve.access import LATER, Limits, RefusedError
from alignatt_agent.serve.app import create_app
from alignatt_agent.serve.engines import Loader, PooledEngines, SharedEngines
from alignatt_agent.serve.remote import Placed, Reply, Said, Talk, Work, attend
from alignatt_agent.serve.service import STOP_S, Service
from alignatt_agent.types import EngineError, Step

LOGGER = logging.getLogger(__name__)

APP, PAGES, ENGINES = "alignatt", "pages", "engines"
"""Names of the application and its deployments."""

LONGEST_TALK_S = 12 * 3600.0
"""A replica that is to go may finish its talks for so long."""

PLACE_S = 300.0
"""Longest time that a speaker waits for a replica that is being started."""

LOOK_BACK_S = 10.5
"""Talks under way are told every ten seconds, and Serve wants to look back longer than that."""

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
        loader: Callable[[], Loader],
    ) -> None:
        quieten()
        context = serve.get_replica_context()
        check_versions(here, versions(), context.replica_id.unique_id)
        self._name = context.replica_id.unique_id
        self._loader = loader()
        self._engines = SharedEngines(_resolved(config), self._loader)
        self._engines.load()
        self._threads = ThreadPoolExecutor(speakers, "step")
        self._pages = serve.get_deployment_handle(PAGES, APP)

    async def talk(
        self, key: int, source: str, targets: Sequence[str], context: str
    ) -> AsyncIterator[Reply]:
        """Hear a talk to its end."""
        loop = asyncio.get_running_loop()
        replies: asyncio.Queue[Reply | None] = asyncio.Queue()

        def said(target: str, found: Step | Exception) -> None:
            loop.call_soon_threadsafe(replies.put_nowait, Said(target, found))

        async def fetch() -> Work | None:
            work: Work | None = await self._pages.work.remote(key)
            return work

        spoken, wanted = language(source), [language(code) for code in targets]
        async with self._engines.booth(spoken, wanted, context, said, lambda _: None) as booth:
            yield Placed(self._name)
            async for reply in attend(booth, fetch, self._threads, replies, self._loader.alive):
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


class RemoteEngines:
    """The replicas, as a service sees them.

    Args:
        resolved: the configuration.
        handle: of their deployment.
        scale: how many there are.

    Attributes:
        talks: under way, by key.
    """

    def __init__(self, resolved: Resolved, handle: Any, scale: Scale) -> None:
        self.resolved = resolved
        self.state: Literal["starting", "ok"] = "starting"
        self.error: str | None = None
        self.restarts = 0
        self.talks: dict[int, Talk] = {}
        self._handle = handle.options(stream=True)
        self._scale = scale
        self._opened = self._running = 0
        self._gone: set[str] = set()

    def healthy(self) -> bool:
        """Whether any replica can hear talks."""
        return self.state == "ok"

    @contextlib.asynccontextmanager
    async def booth(
        self,
        source: Language,
        targets: Sequence[Language],
        context: str,
        said: Callable[[str, Step | Exception], None],
        failed: Callable[[EngineError], None],
    ) -> AsyncIterator[Talk]:
        """Hold the booth of a new talk on a replica with room; waits for one that is starting.

        Args:
            source: the spoken language.
            targets: languages to translate into.
            context: names and terms of the talk.
            said: gets what ``schedule: async`` says when it is ready.
            failed: is told when the replica is lost.

        Raises:
            RefusedError: there is none, and none came.
        """
        codes = [target.code for target in targets]
        talk = Talk(codes, said, lambda error: self._lost(talk, error, failed))
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
        """Serve does it."""

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
        return {
            "restarts": self.restarts,
            "replicas": {
                "least": self._scale.least,
                "most": self._scale.most,
                "running": self._running,
                "talks": dict(placed),
            },
        }

    async def stop(self) -> None:
        """Nothing is to be stopped here."""

    def _lost(self, talk: Talk, error: EngineError, failed: Callable[[EngineError], None]) -> None:
        if talk.replica is not None and talk.replica not in self._gone:
            self._gone.add(talk.replica)
            self.restarts += 1
        LOGGER.error("a talk broke off: %s", error)
        failed(error)


class Pages:
    """The application, and the line on which replicas fetch what talks want of them.

    Args:
        engines: handle of their deployment.
        config: the configuration.
        limits: who may come.
        scale: how many replicas there are.
    """

    def __init__(
        self, engines: Any, config: Mapping[str, Any], limits: Limits, scale: Scale
    ) -> None:
        quieten()
        self._engines = RemoteEngines(_resolved(config), engines, scale)
        most = scale.most * scale.speakers
        self._service = Service(self._engines, replace(limits, max_speakers=most))
        self._gauges: dict[str, ray_metrics.Gauge] = {}
        self._watching = asyncio.ensure_future(self._engines.watch(self._pass_on))

    def __serve_build_asgi_app__(self) -> Starlette:
        return create_app(self._service)

    async def work(self, key: int) -> Work | None:
        """Return what is to be done next for a talk; ``None`` when it is over."""
        talk = self._engines.talks.get(key)
        return await talk.work() if talk else None

    async def drain(self) -> None:
        """Let the speakers' last words be translated, and the viewers go."""
        await self._service.drain()
        self._watching.cancel()

    def _pass_on(self) -> None:
        """Show the metrics in Ray's dashboard, too."""
        for family in self._service.metrics():
            for sample in family.samples:
                if sample.name not in self._gauges:
                    text = family.documentation
                    self._gauges[sample.name] = ray_metrics.Gauge(sample.name, text)
                self._gauges[sample.name].set(sample.value)


@contextlib.contextmanager
def deployed(
    resolved: Resolved,
    limits: Limits,
    scale: Scale,
    host: str,
    port: int,
    loader: Callable[[], Loader] = PooledEngines,
) -> Iterator[None]:
    """Run the application on the cluster; speakers' last words are translated at the end.

    Args:
        resolved: the configuration.
        limits: who may come.
        scale: how many engines there are.
        host: address to listen on, on the head.
        port: port to listen on.
        loader: where the engines of each replica come from; importable.

    Raises:
        ClusterError: it runs there already, or does not start.
    """
    quiet = LoggingConfig(enable_access_log=False, log_level="WARNING")  # no tokens in logs
    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    before = serve.status().applications
    if APP in before:
        raise ClusterError(
            f"the cluster runs an application {APP!r} already: stop that `alignatt serve` first"
        )
    try:
        serve.start(
            proxy_location="HeadOnly",
            http_options={"host": host, "port": port},
            logging_config=quiet,
        )
        handle = serve.run(_application(resolved, limits, scale, loader, quiet), name=APP)
        try:
            yield
        finally:
            with contextlib.suppress(Exception):  # a cluster that is gone has nothing to drain
                handle.drain.remote().result(timeout_s=STOP_S + 5)
    except (RuntimeError, RayError) as error:
        raise ClusterError(f"the server does not start on the cluster: {one_line(error)}") from None
    finally:
        with contextlib.suppress(Exception):
            if before:
                serve.delete(APP)
            else:
                serve.shutdown()


def _application(
    resolved: Resolved,
    limits: Limits,
    scale: Scale,
    loader: Callable[[], Loader],
    logging_config: LoggingConfig,
) -> serve.Application:
    config = resolved.config.model_dump(mode="json")
    engines = serve.deployment(
        name=ENGINES,
        max_ongoing_requests=scale.speakers,
        autoscaling_config=AutoscalingConfig(
            min_replicas=scale.least,
            initial_replicas=scale.least,
            max_replicas=scale.most,
            target_ongoing_requests=scale.speakers,
            upscale_delay_s=scale.grow_s,
            downscale_delay_s=scale.shrink_s,
            look_back_period_s=LOOK_BACK_S,
        ),
        ray_actor_options=dict(scale.share),
        graceful_shutdown_timeout_s=LONGEST_TALK_S,
        graceful_shutdown_wait_loop_s=1.0,
        health_check_period_s=1.0,
        health_check_timeout_s=60.0,
        max_constructor_retry_count=2,
        logging_config=logging_config,
    )(Replica)
    pages = serve.deployment(
        name=PAGES,
        num_replicas=1,
        max_ongoing_requests=100_000,
        ray_actor_options={"num_cpus": 0},
        graceful_shutdown_timeout_s=STOP_S,
        logging_config=logging_config,
    )(serve.ingress()(Pages))
    return pages.bind(
        engines.bind(config, versions(), scale.speakers, loader), config, limits, scale
    )


def _resolved(config: Mapping[str, Any]) -> Resolved:
    """Find the configuration's checkpoints and head sets on this machine."""
    return resolve(AgentConfig.parse(dict(config), APP))
