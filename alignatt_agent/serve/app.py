"""Create the ASGI application: pages, WebSockets, server-sent events, and ``/health``."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from types import ModuleType

from sse_starlette.sse import AppStatus
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from alignatt_agent.policy import REASONS
from alignatt_agent.serve.access import RefusedError
from alignatt_agent.serve.http_handlers import PAGES, HttpHandlers
from alignatt_agent.serve.publish import publish
from alignatt_agent.serve.response_headers import SafeHeaders
from alignatt_agent.serve.service import STOP_S, Service
from alignatt_agent.serve.web_sockets import web_socket_routes
from alignatt_agent.serve.wires import WIRES

_TEXTS = f"export const REASONS = {json.dumps(REASONS)}"
"""The policies' reason texts, as a JavaScript module for the pages."""


def create_app(service: Service, wires: Sequence[ModuleType] = WIRES) -> Starlette:
    """Return the ASGI application for a service whose engines are loaded."""
    limits = service.limits
    handlers = HttpHandlers(service)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        AppStatus.enable_automatic_graceful_drain = False  # ``drain`` first sends the last text
        watching = asyncio.create_task(service.watch())
        publishing = []
        for destination in limits.publish:
            task = asyncio.create_task(publish(service.publisher, destination))
            publishing.append(task)
        try:
            yield
        finally:
            watching.cancel()
            await service.drain()
            # ``drain`` closes the rooms, so the publishers end after the last captions.
            if publishing:
                await asyncio.wait(publishing, timeout=STOP_S)

    routes: list[BaseRoute] = [
        *web_socket_routes(service, wires),
        Route("/", FileResponse(PAGES / "page.html")),
        Route("/captions", handlers.captions),
        Route("/captions.json", handlers.download),
        Route("/events", handlers.events),
        Route("/health", handlers.health),
        Route("/metrics", handlers.metrics),
        Route("/qr", handlers.qr_code),
        Route("/transcript", handlers.download),
        Route("/pages/policies.js", Response(_TEXTS, media_type="text/javascript")),
        Mount("/pages", StaticFiles(directory=PAGES)),
    ]
    return Starlette(
        routes=routes,
        # Pages that show captions on other hosts may read events, with the token in a header.
        middleware=[
            Middleware(SafeHeaders, embed=limits.embed),
            Middleware(CORSMiddleware, allow_origins=limits.embed, allow_headers=["authorization"]),
        ],
        exception_handlers={RefusedError: handlers.refused, Exception: handlers.refused},
        lifespan=lifespan,
    )
