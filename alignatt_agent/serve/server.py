"""Run uvicorn with additional limits, and translate the last words before it stops."""

import asyncio
import contextlib
import resource
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from alignatt_agent.config.errors import ConfigError
from alignatt_agent.serve.access import MAX_EVENT, POLICY
from alignatt_agent.serve.app import create_app
from alignatt_agent.serve.service import STOP_S, Service

PING_S = 20.0
"""Seconds between pings to clients, because proxies close silent connections."""

REQUEST_S, GRACE_S, MOST_SILENT, MOST_OF_ADDRESS = 10.0, 1.0, 256, 64
"""Request timeouts in seconds (normal, overload), and overload limits (total, per address)."""

MOST_PINGS, PIECE = 100, 4096
"""Maximum number of pings per second on a WebSocket, and of bytes per read."""

CLOSE_S = 2.0
"""Seconds for clients to confirm that the connection is closed when the server stops.

After that, uvicorn aborts the connection. If the speaker is still sending, the connection is reset,
and the client library discards any last words that it has not read yet.
"""


def listen(host: str, port: int) -> socket.socket:
    """Reserve an address before the engines are loaded; clients cannot connect yet."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        taken = socket.socket(family, kind)
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(address)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host}:{port} ({error.strerror}): stop the program on this port, or "
            "choose another port with --port"
        ) from None
    return taken


class FewPings(WebSocketsSansIOProtocol):
    """A WebSocket that closes itself with a reason if its client sends too many pings."""

    _pings, _since = 0, 0.0

    def data_received(self, data: bytes) -> None:
        """Process small pieces, because 250 KiB may contain 37,000 pings."""
        for begin in range(0, len(data), PIECE):
            if not self.transport.is_closing():
                super().data_received(data[begin : begin + PIECE])

    def handle_ping(self) -> None:
        """Answer and count a ping."""
        super().handle_ping()
        self._pings += 1
        if (now := time.monotonic()) > self._since + 1:
            self._pings, self._since = 1, now
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

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on a signal; unlike uvicorn, do not raise the signal again."""
        with super().capture_signals():
            yield
            self._captured_signals.clear()

    async def on_tick(self, counter: int) -> bool:
        """Close connections that send no request in time, or the oldest if there are too many."""
        now, opened, known = time.monotonic(), self.server_state.connections, self._silent
        found = [*filter(opened.__contains__, known), *(opened - known.keys())]
        http = [one for one in found if hasattr(one, "cycle")]
        idle = [one for one in http if getattr(one.cycle, "response_complete", True)]
        self._silent = {one: known.get(one, now) for one in idle}
        of_address: Counter[str] = Counter()
        for number, (one, since) in enumerate(reversed(self._silent.items())):
            address = (one.client or "?")[0]
            of_address[address] += 1
            many = number >= MOST_SILENT or of_address[address] > MOST_OF_ADDRESS
            if now - since > (GRACE_S if many else REQUEST_S):
                one.transport.abort()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, wait for the streams to end, then close the connections."""
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
        kind = self.config.ws_protocol_class
        return not any(type(one) is kind for one in self.server_state.connections)
