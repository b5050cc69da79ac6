"""Run the live server on Ray Serve, with the application as ingress and the engines as replicas.

Each talk is one request to a replica; the request stays open until the talk ends. Ray Serve thus
schedules talks: it sends a new talk to a replica with a free slot, adjusts the number of replicas
to the number of talks, and lets a surplus replica finish its talks. The application stores the
rooms, so viewers can always reach them, and text is kept if the replica that produced it fails.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ray import serve
from ray.exceptions import RayError
from ray.serve.config import AutoscalingConfig
from ray.serve.schema import LoggingConfig
from starlette.applications import Starlette

from alignatt_agent.cascade.runtime import Runtime
from alignatt_agent.cluster.connection import ClusterError, one_line
from alignatt_agent.config.quiet import quieten
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.machine.packages import versions
from alignatt_agent.serve.access import Limits
from alignatt_agent.serve.app import create_app
from alignatt_agent.serve.engines import SharedEngines
from alignatt_agent.serve.remote import Call
from alignatt_agent.serve.replicas import APP, ENGINES, PAGES, RemoteEngines, Replica, Scale
from alignatt_agent.serve.service import STOP_S, Service

LONGEST_TALK_S = 12 * 3600.0
"""Seconds for a replica to finish its talks when it shuts down."""

LOOK_BACK_S = 10.5
"""Look-back period in seconds; it must exceed the 10 s between two counts of talks by Serve."""

_QUIET = LoggingConfig(enable_access_log=False, log_level="WARNING")  # no tokens in logs

_ASK_AT_ONCE = {
    "RAY_core_worker_rpc_server_reconnect_timeout_base_s": "0",
    "RAY_grpc_client_check_connection_status_interval_milliseconds": "50",
}
"""By default, Ray waits for one second before it checks whether a silent process is dead.
Meanwhile, a reply to a killed replica blocks all other replies of the application. This occurred in
16 of 44 kills with the defaults, in 5 of 10 with the first setting, and in 0 of 18 with both."""


class Pages:
    """The application, from which replicas fetch the calls of talks."""

    def __init__(
        self, engines: Any, config: Mapping[str, Any], limits: Limits, scale: Scale
    ) -> None:
        quieten()
        self._engines = RemoteEngines(config, engines, scale)
        # The limit of the command line is that of one replica.
        all_limits = replace(limits, max_speakers=scale.most * scale.speakers)
        self._service = Service(self._engines, all_limits)
        self._watching = asyncio.ensure_future(self._engines.watch())

    def __serve_build_asgi_app__(self) -> Starlette:
        return create_app(self._service)

    async def next_call(self, key: int) -> Call | None:
        """Return the next call of a talk, or ``None`` if the talk has ended."""
        talk = self._engines.talks.get(key)
        if talk is None:
            return None
        return await talk.calls.get()

    async def drain(self) -> None:
        """Translate the last words of all speakers and disconnect the viewers."""
        await self._service.drain()
        self._watching.cancel()


@contextlib.contextmanager
def deployed(
    resolved: Resolved,
    limits: Limits,
    scale: Scale,
    host: str,
    port: int,
    engines: Callable[[Resolved, Runtime], SharedEngines] = SharedEngines,
) -> Iterator[None]:
    """Run the application on the cluster; on exit, translate the last words of all speakers.

    ``engines`` is an importable function that creates the engines of a replica.
    """
    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    before = serve.status().applications
    if APP in before:
        raise ClusterError(
            f"the cluster already runs an application {APP!r}: stop the other `alignatt serve`"
        )
    try:
        serve.start(
            proxy_location="HeadOnly",
            http_options={"host": host, "port": port},
            logging_config=_QUIET,
        )
        handle = serve.run(_application(resolved, limits, scale, engines), name=APP)
        try:
            yield
        finally:
            with contextlib.suppress(Exception):  # a lost cluster has nothing to drain
                handle.drain.remote().result(timeout_s=STOP_S + 5)
    except (RuntimeError, RayError) as error:
        raise ClusterError(f"the server cannot start on the cluster: {one_line(error)}") from None
    finally:
        # Serve itself is shut down only if no other application runs on it.
        with contextlib.suppress(Exception):
            if before:
                serve.delete(APP)
            else:
                serve.shutdown()


def _application(
    resolved: Resolved,
    limits: Limits,
    scale: Scale,
    engines: Callable[[Resolved, Runtime], SharedEngines],
) -> serve.Application:
    config = resolved.config.model_dump(mode="json")
    replica_deployment = serve.deployment(
        name=ENGINES,
        max_ongoing_requests=scale.speakers,
        autoscaling_config=AutoscalingConfig(
            min_replicas=scale.least,
            initial_replicas=scale.least,
            max_replicas=scale.most,
            target_ongoing_requests=scale.speakers,
            upscale_delay_s=1.0,  # a talk that waits this long starts a replica
            downscale_delay_s=scale.shrink_s,
            look_back_period_s=LOOK_BACK_S,
        ),
        ray_actor_options=dict(scale.share),
        graceful_shutdown_timeout_s=LONGEST_TALK_S,
        graceful_shutdown_wait_loop_s=1.0,
        health_check_period_s=1.0,
        health_check_timeout_s=60.0,
        max_constructor_retry_count=2,
        logging_config=_QUIET,
    )
    pages_deployment = serve.deployment(
        name=PAGES,
        # All rooms are in one process, so it is never replicated.
        num_replicas=1,
        # A viewer is a request that never ends.
        max_ongoing_requests=100_000,
        ray_actor_options={
            "num_cpus": 0,
            "resources": {"node:__internal_head__": 0.001},  # the node that stores the journal
            "runtime_env": {"env_vars": _ASK_AT_ONCE},
        },
        graceful_shutdown_timeout_s=STOP_S,
        logging_config=_QUIET,
    )
    replica = replica_deployment(Replica)
    pages = pages_deployment(serve.ingress()(Pages))
    bound_replica = replica.bind(config, versions(), scale.speakers, engines)
    return pages.bind(bound_replica, config, limits, scale)
