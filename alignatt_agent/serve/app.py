"""The ASGI application: pages, sockets, server-sent events and health on one port."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import AppStatus, EventSourceResponse
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from alignatt_agent.serve.access import LATER, MOST_WAITING, RefusedError
from alignatt_agent.serve.publish import publish
from alignatt_agent.serve.rooms import Room
from alignatt_agent.serve.service import STOP_S, Service
from alignatt_agent.serve.transcripts import FORMATS, latest, transcript
from alignatt_agent.serve.wires import mt, own, realtime
from alignatt_agent.serve.wires.connection import Connection


class Wire(Protocol):
    """A protocol of clients: a file of ``wires/``."""

    @property
    def PATHS(self) -> tuple[str, ...]:  # noqa: N802
        """Return the paths that its clients connect to."""

    async def serve(self, connection: Connection, service: Service) -> None:
        """Serve a client to the end; ``RefusedError`` if that is not possible."""

    async def refuse(self, connection: Connection, service: Service, error: RefusedError) -> None:
        """Send the error as the protocol has it."""


WIRES: tuple[Wire, ...] = (own, realtime, mt)

PAGES = Path(__file__).parent / "pages"

HEARTBEAT_S = 15
"""Proxies close silent connections."""

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self'; media-src 'self' blob:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "permissions-policy": "microphone=(self)",
}
"""No requests to other servers, and no referrer: an address may hold a token."""


def create_app(service: Service) -> Starlette:
    """Return the ASGI application of a service whose engines are loaded."""

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        AppStatus.enable_automatic_graceful_drain = False  # viewers get the end first
        watching = asyncio.create_task(service.watch())
        posting = [
            asyncio.create_task(publish(service.viewer, item)) for item in service.limits.publish
        ]
        try:
            yield
        finally:
            watching.cancel()
            await service.drain()
            if posting:
                await asyncio.wait(posting, timeout=STOP_S)

    async def events(request: Request) -> Response:
        service.limits.check(request, viewing=True)
        name = request.query_params.get("room", "")
        since = request.headers.get("last-event-id") or request.query_params.get("since", "")
        service.admit(name)

        async def stream() -> AsyncIterator[ServerSentEvent]:
            with service.viewer(name) as room:
                async for event in room.follow(since):
                    yield ServerSentEvent(event.text, id=event.id)

        return EventSourceResponse(
            stream(), ping=HEARTBEAT_S, send_timeout=2 * HEARTBEAT_S, shutdown_grace_period=STOP_S
        )

    async def health(request: Request) -> Response:
        found = service.health()
        try:
            service.limits.check(request, viewing=True)
        except RefusedError:  # a load balancer needs no token
            found = {"status": found["status"], "token": True}
        return JSONResponse(found, 200 if found["status"] == "ok" else 503)

    async def metrics(request: Request) -> Response:
        service.limits.check(request, viewing=True)
        return Response(generate_latest(service.metrics.registry), media_type=CONTENT_TYPE_LATEST)

    def asked(request: Request) -> tuple[Room, str]:
        service.limits.check(request, viewing=True)
        name, target = (request.query_params.get(key, "") for key in ("room", "target"))
        room = service.rooms.find(name)
        if room is None:
            raise RefusedError("room", f"there is no room {name[:80]!r}", status=404)
        return room, target

    async def captions(request: Request) -> Response:
        room, target = asked(request)
        if target not in service.targets():
            raise RefusedError("target", f"there is no text in {target[:20]!r}", status=404)
        return JSONResponse(latest(room, target), headers={"cache-control": "no-store"})

    async def download(request: Request) -> Response:
        room, target = asked(request)
        kind = request.query_params.get("format", "srt")
        if kind not in FORMATS:
            expected = ", ".join(FORMATS)
            raise RefusedError(
                "format", f"unknown format {kind[:20]!r}; known: {expected}", status=400
            )
        content = await asyncio.to_thread(transcript, room, target, kind)
        file = f"{room.name}.{target}.{kind}"
        named = f'filename="{file}"' if file.isascii() else f"filename*=utf-8''{quote(file)}"
        headers = {"content-disposition": f"attachment; {named}", "cache-control": "no-store"}
        return Response(content, media_type=FORMATS[kind], headers=headers)

    routes: list[BaseRoute] = [
        *_sockets(service),
        Route("/", _page("page.html")),
        Route("/captions", _page("captions.html")),
        Route("/captions.json", captions),
        Route("/events", events),
        Route("/health", health),
        Route("/metrics", metrics),
        Route("/transcript", download),
        Mount("/pages", _Pages(directory=PAGES)),
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(_SafeHeaders)],
        exception_handlers={RefusedError: _refused},
        lifespan=lifespan,
    )


def _sockets(service: Service) -> list[WebSocketRoute]:
    """Return the routes of all wires; their connections count together."""
    connected: set[WebSocket] = set()

    def route(path: str, wire: Wire) -> WebSocketRoute:
        async def endpoint(socket: WebSocket) -> None:
            await socket.accept()  # a browser gets a reason only from an open connection
            connection = Connection(socket, service)
            if len(connected) >= service.limits.max_speakers + MOST_WAITING:
                message = f"{len(connected)} connections are open: try later"
                error = RefusedError("busy", message, LATER)
                await own.refuse(connection, service, error)
                return await connection.close(error.close, str(error))
            connected.add(socket)
            try:
                with contextlib.suppress(WebSocketDisconnect):
                    await _serve(wire, connection, service, socket)
            finally:
                connected.discard(socket)

        return WebSocketRoute(path, endpoint)

    return [route(path, wire) for wire in WIRES for path in wire.PATHS]


async def _serve(wire: Wire, connection: Connection, service: Service, socket: WebSocket) -> None:
    try:
        service.limits.check(socket)
        await wire.serve(connection, service)
    except RefusedError as error:
        await wire.refuse(connection, service, error)
        await connection.close(error.close, str(error))
    else:
        await connection.close()


class _Pages(StaticFiles):
    """Scripts and styles that browsers ask for again: those of another version would not fit."""

    def file_response(self, *given: Any, **named: Any) -> Response:
        response = super().file_response(*given, **named)
        response.headers["cache-control"] = "no-cache"
        return response


def _page(name: str) -> Callable[[Request], Awaitable[Response]]:
    async def page(_: Request) -> Response:
        return FileResponse(PAGES / name, headers={"cache-control": "no-cache"})

    return page


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    headers = {"retry-after": "10"} if error.status == 503 else {}
    content: dict[str, Any] = {"error": error.code, "message": str(error)}
    return JSONResponse(content, error.status, headers)


class _SafeHeaders:
    """Middleware that sets ``HEADERS`` on every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def safe(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, safe if scope["type"] == "http" else send)
