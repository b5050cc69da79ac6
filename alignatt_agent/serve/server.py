"""Run uvicorn with additional limits, and translate the last words before it stops."""

import asyncio
import resource
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from alignatt_agent.config.errors import ConfigError
from alignatt_agent.serve.access import MAX_EVENT, POLICY
from alignatt_agent.serve.app import create_app
from alignatt_agent.serve.service import STOP_S, Service

PING_S = 20.0
"""Seconds between pings to clients, because proxies close silent connections."""

REQUEST_S = 10.0
"""Seconds after which a connection without a request is closed."""

GRACE_S = 1.0
"""Seconds after which such a connection is closed if there are too many."""

MOST_SILENT = 256
"""Number of connections without a request above which the oldest have only ``GRACE_S``."""

MOST_OF_ADDRESS = 64
"""Number of such connections from one address above which its oldest have only ``GRACE_S``."""

MOST_PINGS = 100
"""Maximum number of pings per second on a WebSocket."""

PIECE = 4096
"""Maximum number of bytes that a WebSocket processes at once."""

CLOSE_S = 2.0
"""Seconds for clients to confirm that the connection is closed when the server stops.

After that, uvicorn aborts the connection. If the speaker is still sending, the connection is reset,
and the client library discards any last words that it has not read yet.
"""


def listen(host: str, port: int) -> socket.socket:
    """Reserve an address before the engines are loaded; clients cannot connect yet."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        reserved = socket.socket(family, kind)
        # A restarted server need not wait until the old connections have expired.
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(address)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host}:{port} ({error.strerror}): stop the program on this port, or "
            "choose another port with --port"
        ) from None
    return reserved


class FewPings(WebSocketsSansIOProtocol):
    """A WebSocket that closes itself with a reason if its client sends too many pings."""

    # Neither uvicorn nor websockets has a setting for this, and proxies pass pings on. The
    # application never sees pings, so they can only be counted in the protocol.

    _pings = 0
    _since = 0.0

    def data_received(self, data: bytes) -> None:
        """Process small pieces, because 250 KiB may contain 37,000 pings."""
        for begin in range(0, len(data), PIECE):
            if not self.transport.is_closing():
                super().data_received(data[begin : begin + PIECE])

    def handle_ping(self) -> None:
        """Answer and count a ping."""
        super().handle_ping()
        self._pings += 1
        now = time.monotonic()
        if now > self._since + 1:
            self._pings = 1
            self._since = now
        if self._pings > MOST_PINGS and not self.transport.is_closing():
            self.conn.fail(POLICY, f"more than {MOST_PINGS} pings per second")
            self.handle_parser_exception()


class Server(uvicorn.Server):
    """A uvicorn server that translates the audio received so far before it closes connections.

    It calls ``ready`` when clients can connect.
    """

    def __init__(self, service: Service, ready: Callable[[], None] = lambda: None) -> None:
        super().__init__(
            uvicorn.Config(
                create_app(service),
                ws=FewPings,
                ws_max_size=MAX_EVENT,
                ws_ping_interval=PING_S,
                # If a client sends faster than real time, its pongs wait behind its audio. With a
                # timeout, a connection that sent a ten-minute file was lost after 40 s. ``idle_s``
                # detects dead clients.
                ws_ping_timeout=None,
                ws_per_message_deflate=False,
                access_log=False,  # URLs may contain tokens
                log_config=None,  # errors go to the root logger, see ``output``
                log_level="critical",  # the application logs errors, without tracebacks
                server_header=False,
                timeout_graceful_shutdown=5,
            )
        )
        self._service = service
        self._ready = ready
        self._silent: dict[Any, float] = {}  # start of each connection's silence, oldest first

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Raise the limit on file descriptors, then start listening."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2**16)), hard))
        await super().startup(sockets)
        self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop on a signal, immediately on a second Ctrl-C.

        Unlike uvicorn's method, it does not record the signal, which would then be raised again
        after a normal stop.
        """
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        else:
            self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        """Close connections that send no request in time, or the oldest if there are too many."""
        # A proxy can do this, but the server also runs without one. Uvicorn has no setting for it:
        # ``timeout_keep_alive`` begins with the first response, and ``limit_concurrency`` counts
        # viewers, too, and rejects new clients instead of silent ones.
        now = time.monotonic()
        self._update_silent(now)
        self._close_silent(now)
        return await super().on_tick(counter)

    def _update_silent(self, now: float) -> None:
        """Note since when each connection has been silent."""
        connections = self.server_state.connections
        silent: dict[Any, float] = {}
        # Those that were silent before come first, so the oldest remain the first.
        for connection in [*self._silent, *connections]:
            if connection in connections and _has_no_request(connection):
                silent[connection] = self._silent.get(connection, now)
        self._silent = silent

    def _close_silent(self, now: float) -> None:
        of_address: Counter[str] = Counter()
        newest_first = reversed(self._silent.items())
        for number, (connection, since) in enumerate(newest_first):
            address = (connection.client or "?")[0]
            of_address[address] += 1
            limit_s = REQUEST_S
            if number >= MOST_SILENT or of_address[address] > MOST_OF_ADDRESS:
                limit_s = GRACE_S
            if now - since > limit_s:
                connection.transport.abort()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, wait for the streams to end, then close the connections."""
        # Uvicorn's method alone would close the connections before the last words are translated.
        for server in self.servers:
            server.close()
        draining = asyncio.ensure_future(self._service.drain())
        await self._until(draining.done, STOP_S + 1)
        await self._until(self._left, CLOSE_S)
        await super().shutdown(sockets)

    async def _until(self, done: Callable[[], bool], seconds: float) -> None:
        for _ in range(round(10 * seconds)):
            if done() or self.force_exit:
                break
            await asyncio.sleep(0.1)

    def _left(self) -> bool:
        """Return whether all WebSockets are closed."""
        for connection in self.server_state.connections:
            if isinstance(connection, FewPings):
                return False
        return True


def _has_no_request(connection: Any) -> bool:
    """Return whether a connection waits for a client's HTTP request."""
    # A WebSocket has no cycle; the ``Connection`` of its client limits its silence.
    if not hasattr(connection, "cycle"):
        return False
    # Uvicorn's protocols for HTTP have no cycle before the first request.
    if connection.cycle is None:
        return True
    return bool(connection.cycle.response_complete)
