"""Serve the WebSockets of all client protocols, and limit how many are open."""

import math
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from types import ModuleType

from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from alignatt_agent.serve.access import LATER, MOST_WAITING, Limits, RefusedError
from alignatt_agent.serve.connection import Connection
from alignatt_agent.serve.refusals import reported
from alignatt_agent.serve.service import Service


def web_socket_routes(service: Service, wires: Sequence[ModuleType]) -> list[WebSocketRoute]:
    """Return the routes of all wires, which share one limit on connections."""
    connections = OpenConnections(service.limits)
    routes = []
    for wire in wires:
        endpoint = _Endpoint(wire, service, connections)
        routes += [WebSocketRoute(path, endpoint.serve) for path in wire.PATHS]
    return routes


class OpenConnections:
    """The open connections of a server."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._connections: set[Connection] = set()

    def admit(self, connection: Connection) -> None:
        """Count a connection; if there are too many, close the one that has been silent longest.

        Raises:
            RefusedError: there are too many connections, and none may be closed.
        """
        crowd = self._crowd(connection.token)
        if crowd and not self._end_longest_silence(crowd):
            raise RefusedError("busy", f"{len(crowd)} connections are open: try again later", LATER)
        self._connections.add(connection)

    def discard(self, connection: Connection) -> None:
        """Stop counting a connection."""
        self._connections.discard(connection)

    def end_silent_speaker(self) -> None:
        """Close the connection of the speaker who has been silent longest, for ``silent_s``."""
        speakers = [connection for connection in self._connections if connection.speaking]
        self._end_longest_silence(speakers)

    def _crowd(self, token: str) -> Collection[Connection]:
        """Return the connections of which one must end before another client with this token.

        It is empty if another connection may be opened.
        """
        limits = self._limits
        tokens = (limits.token or "").splitlines()
        # Each other token reserves a slot, so the clients of one token cannot take all slots.
        other_tokens = len(tokens) - 1
        if other_tokens > 0:
            same_token = [each for each in self._connections if each.token == token]
            slots = max(1, limits.max_speakers - other_tokens)
            if len(same_token) >= slots:
                return same_token
        if len(self._connections) >= limits.max_speakers + MOST_WAITING:
            return self._connections
        return ()

    def _end_longest_silence(self, crowd: Collection[Connection]) -> bool:
        """Close the longest-silent connection; speakers must have been silent for ``silent_s``."""
        now = time.monotonic()
        silent = []
        for connection in crowd:
            least_s = self._limits.silent_s if connection.speaking else 0.0
            if now - connection.since >= least_s:
                silent.append(connection)
        if not silent:
            return False
        longest = min(silent, key=lambda connection: connection.since)
        longest.wait.reschedule(0)
        # The connection ends soon; another client must not choose it again.
        longest.since = math.inf
        return True


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """The handler of a wire's WebSockets."""

    wire: ModuleType
    service: Service
    connections: OpenConnections

    async def serve(self, socket: WebSocket) -> None:
        """Serve a client until the connection ends."""
        await socket.accept()  # browsers receive a rejection only on an open connection
        connection = Connection(socket, self.service)
        try:
            connection.token = self.service.limits.check(socket)
            self.connections.admit(connection)
            await self.wire.serve(connection, self.service)
            await connection.close()
        except WebSocketDisconnect:
            pass
        except Exception as error:
            refusal = reported(error, self.service.metrics)
            # A speaker who has disappeared must not keep a slot from the client's next attempt.
            if refusal.code == "busy":
                self.connections.end_silent_speaker()
            await self.wire.refuse(connection, self.service, refusal)
            await connection.close(refusal.close, str(refusal))
        finally:
            self.connections.discard(connection)
