"""Create the ASGI application: pages, WebSockets, server-sent events, and ``/health``."""

import asyncio
import contextlib
import io
import json
import logging
import math
import time
import traceback
from collections.abc import AsyncIterator, Collection, Sequence
from pathlib import Path
from types import ModuleType
from urllib.parse import quote, urlencode

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import AppStatus, EventSourceResponse
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from alignatt_agent.policy import REASONS
from alignatt_agent.serve.access import BROKEN, LATER, MOST_WAITING, Limits, RefusedError, gone
from alignatt_agent.serve.connection import Connection
from alignatt_agent.serve.publish import publish
from alignatt_agent.serve.rooms import check_name
from alignatt_agent.serve.service import STOP_S, Service
from alignatt_agent.serve.transcripts import FORMATS, transcript
from alignatt_agent.serve.wires import WIRES
from alignatt_agent.types import EngineError

PAGES = Path(__file__).parent / "pages"

_TEXTS = f"export const REASONS = {json.dumps(REASONS)}"
"""The policies' reason texts, as a JavaScript module for the pages."""

LOGGER = logging.getLogger(__name__)

HEARTBEAT_S = 15
"""Seconds between pings to viewers, because proxies close silent connections."""

HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "permissions-policy": "microphone=(self)",
    "cache-control": "no-cache",
}
"""Headers of all responses: no referrer, because it may contain a token, and no stale scripts."""


def _policy(embed: Collection[str], style: str = "") -> str:
    """Return a page's content security policy, which blocks content from other servers.

    ``embed`` lists the origins that may show the page in a frame. ``style`` adds a source of styles
    for OBS, which inserts the user's CSS into the overlay as a style element.
    """
    framing = " ".join(["'self'", *embed])
    return (
        f"default-src 'none'; script-src 'self'; style-src 'self'{style}; connect-src 'self'; "
        "img-src 'self'; media-src 'self' blob:; base-uri 'none'; form-action 'none'; "
        f"frame-ancestors {framing}"
    )


def create_app(service: Service, wires: Sequence[ModuleType] = WIRES) -> Starlette:
    """Return the ASGI application for a service whose engines are loaded."""
    limits = service.limits

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        AppStatus.enable_automatic_graceful_drain = False  # ``drain`` first sends the last text
        watching = asyncio.create_task(service.watch())
        posting = [asyncio.create_task(publish(service.publisher, item)) for item in limits.publish]
        try:
            yield
        finally:
            watching.cancel()
            await service.drain()
            if posting:
                await asyncio.wait(posting, timeout=STOP_S)

    async def events(request: Request) -> Response:
        limits.check(request, viewing=True)
        name = service.admit(request.query_params.get("room", ""))
        since = request.headers.get("last-event-id") or request.query_params.get("since", "")

        async def stream() -> AsyncIterator[ServerSentEvent]:
            with service.viewer(name) as room:
                async for number, text in room.follow(since):
                    yield ServerSentEvent(text, id=number)

        return EventSourceResponse(
            stream(), ping=HEARTBEAT_S, send_timeout=2 * HEARTBEAT_S, shutdown_grace_period=STOP_S
        )

    async def health(request: Request) -> Response:
        found = service.health()
        try:
            limits.check(request, viewing=True)
            found |= {"viewer_token": limits.viewer_token, "address": limits.address}
            found |= limits.rights(request)
        except RefusedError as error:  # a load balancer needs no token
            found = {
                "status": found["status"],
                "token": error.code in ("token", "guesses"),
                "refused": {"code": error.code, "message": str(error)},
            }
        return JSONResponse(found, 200 if found["status"] == "ok" else 503)

    async def metrics(request: Request) -> Response:
        limits.check(request, viewing=True)
        return Response(generate_latest(service.metrics.registry), media_type=CONTENT_TYPE_LATEST)

    async def download(request: Request) -> Response:
        limits.check(request, viewing=True)
        query = request.query_params
        name = query.get("room", "")
        kind = "json" if request.url.path.endswith("json") else query.get("format", "srt")
        room = service.rooms.find(name)
        if room is None:
            raise RefusedError("room", f"room {name[:80]!r} does not exist", status=404)
        if kind not in FORMATS:
            text = f"unknown format {kind[:20]!r}; expected {', '.join(FORMATS)}"
            raise RefusedError("format", text, status=400)
        target = service.target_code(query.get("target", ""))
        content = await asyncio.to_thread(transcript, room, target, kind, query.get("talk", ""))
        file = f"{room.name}.{target}.{kind}"
        named = f'filename="{file}"' if file.isascii() else f"filename*=utf-8''{quote(file)}"
        headers = {"content-disposition": f"attachment; {named}", "cache-control": "no-store"}
        return Response(content, media_type=FORMATS[kind], headers=headers)

    async def captions(request: Request) -> Response:
        query = dict(request.query_params)
        overlay = query.get("target") and query.get("lines") != "all"
        if target := query.get("target"):
            try:
                query["target"] = service.target_code(target)
            except RefusedError:
                if overlay:
                    raise
                del query["target"]  # the viewer chooses a language
            if query.get("target") != target:
                return RedirectResponse(f"captions?{urlencode(query)}")
        if overlay:
            headers = {"content-security-policy": _policy(limits.embed, " 'unsafe-inline'")}
            return FileResponse(PAGES / "overlay.html", headers=headers)
        return FileResponse(PAGES / "captions.html")

    async def code(request: Request) -> Response:
        import segno

        limits.check(request, viewing=True)
        given = request.query_params
        query = {}
        if name := given.get("room"):
            query["room"] = check_name(name)
        if target := given.get("target"):
            query["target"] = service.target_code(target)
        link = limits.viewers(str(request.base_url), given.get("path", "/")[:200], **query)
        segno.make(link).save(found := io.BytesIO(), kind="svg", scale=8, light="white")
        return Response(found.getvalue(), media_type="image/svg+xml")

    async def refused(_: Request, error: Exception) -> Response:
        found = _refusal(service, error)
        headers = HEADERS | ({"retry-after": "10"} if found.status in (429, 503) else {})
        return JSONResponse({"error": found.code, "message": str(found)}, found.status, headers)

    routes: list[BaseRoute] = [
        *_sockets(service, wires),
        Route("/", FileResponse(PAGES / "page.html")),
        Route("/captions", captions),
        Route("/captions.json", download),
        Route("/events", events),
        Route("/health", health),
        Route("/metrics", metrics),
        Route("/qr", code),
        Route("/transcript", download),
        Route("/pages/policies.js", Response(_TEXTS, media_type="text/javascript")),
        Mount("/pages", StaticFiles(directory=PAGES)),
    ]
    return Starlette(
        routes=routes,
        middleware=[
            Middleware(_safe, embed=limits.embed),
            Middleware(CORSMiddleware, allow_origins=limits.embed, allow_headers=["authorization"]),
        ],
        exception_handlers={RefusedError: refused, Exception: refused},
        lifespan=lifespan,
    )


def _sockets(service: Service, wires: Sequence[ModuleType]) -> list[WebSocketRoute]:
    """Return the routes of all wires, which share one limit on connections."""
    opened: set[Connection] = set()

    def route(path: str, wire: ModuleType) -> WebSocketRoute:
        async def endpoint(socket: WebSocket) -> None:
            await socket.accept()  # browsers receive a rejection only on an open connection
            connection = Connection(socket, service)
            try:
                connection.token = service.limits.check(socket)
                _admit(connection, opened, service.limits)
                await wire.serve(connection, service)
                await connection.close()
            except WebSocketDisconnect:
                pass
            except Exception as error:
                refusal = _refusal(service, error)
                if refusal.code == "busy":
                    _end_silence([one for one in opened if one.speaking], service.limits)
                await wire.refuse(connection, service, refusal)
                await connection.close(refusal.close, str(refusal))
            finally:
                opened.discard(connection)

        return WebSocketRoute(path, endpoint)

    return [route(path, wire) for wire in wires for path in wire.PATHS]


def _admit(connection: Connection, opened: set[Connection], limits: Limits) -> None:
    """Count a connection; if there are too many, close the one that has been silent longest."""
    others = len((limits.token or "").splitlines()) - 1  # each other token reserves a slot
    own = [one for one in opened if others > 0 and one.token == connection.token]
    full = len(opened) >= limits.max_speakers + MOST_WAITING
    crowd = own if len(own) >= max(1, limits.max_speakers - others) else opened if full else ()
    if crowd and not _end_silence(crowd, limits):
        raise RefusedError("busy", f"{len(crowd)} connections are open: try again later", LATER)
    opened.add(connection)


def _end_silence(crowd: Collection[Connection], limits: Limits) -> bool:
    """Close the longest-silent connection; speakers must have been silent for ``silent_s``."""
    now = time.monotonic()
    found = [one for one in crowd if now - one.since >= limits.silent_s * one.speaking]
    if found:
        longest = min(found, key=lambda one: one.since)
        longest.wait.reschedule(0)
        longest.since = math.inf
    return bool(found)


def _refusal(service: Service, error: Exception) -> RefusedError:
    """Return and count a rejection; log internal errors, and disclose only their type."""
    if isinstance(error, EngineError):
        error = gone(error)
    if not isinstance(error, RefusedError):
        kind, place = type(error).__name__, traceback.extract_tb(error.__traceback__)[-1]
        LOGGER.error("%s in %s:%s: %.200r", kind, place.filename, place.lineno, str(error))
        error = RefusedError("internal", f"the server failed ({kind}): see its log", BROKEN)
    service.metrics.refusals.labels(error.code).inc()
    return error


def _safe(app: ASGIApp, embed: Collection[str]) -> ASGIApp:
    """Add ``HEADERS`` and the content security policy to every response of an application."""
    added = HEADERS | {"content-security-policy": _policy(embed)}

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        async def safe(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in added.items():
                    headers.setdefault(name, value)
            await send(message)

        await app(scope, receive, safe if scope["type"] == "http" else send)

    return wrapped
