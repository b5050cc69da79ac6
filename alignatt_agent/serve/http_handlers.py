"""Answer HTTP requests: state and metrics, viewers' events, pages, transcripts, and QR codes."""

import asyncio
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import EventSourceResponse
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response

from alignatt_agent.serve.access import RefusedError
from alignatt_agent.serve.refusals import reported
from alignatt_agent.serve.response_headers import HEADERS, security_policy
from alignatt_agent.serve.room_access import check_name
from alignatt_agent.serve.service import STOP_S, Service
from alignatt_agent.serve.transcripts import FORMATS, transcript

PAGES = Path(__file__).parent / "pages"

HEARTBEAT_S = 15
"""Seconds between pings to viewers, because proxies close silent connections."""

RETRY_S = 10
"""Seconds after which a client may repeat a request that was rejected for overload."""


class HttpHandlers:
    """The handlers of a service. Each rejects a request with ``RefusedError``, see ``refused``."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._limits = service.limits

    async def events(self, request: Request) -> Response:
        """Send the messages of a room as they occur, as server-sent events."""
        self._limits.check(request, viewing=True)
        name = self._service.admit(request.query_params.get("room", ""))
        # A browser that reconnects sends the header.
        since = request.headers.get("last-event-id") or request.query_params.get("since", "")
        return EventSourceResponse(
            self._room_events(name, since),
            ping=HEARTBEAT_S,
            send_timeout=2 * HEARTBEAT_S,
            shutdown_grace_period=STOP_S,
        )

    async def _room_events(self, name: str, since: str) -> AsyncIterator[ServerSentEvent]:
        with self._service.viewer(name) as room:
            async for event_id, text in room.follow(since):
                yield ServerSentEvent(text, id=event_id)

    async def health(self, request: Request) -> Response:
        """Return the state of the server; a load balancer needs no token for its status."""
        state = self._service.health()
        status_code = 200
        if state["status"] != "ok":
            status_code = 503
        try:
            self._limits.check(request, viewing=True)
        except RefusedError as error:
            public_state = {
                "status": state["status"],
                "token": error.code in ("token", "guesses"),
                "refused": {"code": error.code, "message": str(error)},
            }
            return JSONResponse(public_state, status_code)
        state["viewer_token"] = self._limits.viewer_token
        state["address"] = self._limits.address
        state |= self._limits.rights(request)
        return JSONResponse(state, status_code)

    async def metrics(self, request: Request) -> Response:
        """Return the metrics in the format of Prometheus."""
        self._limits.check(request, viewing=True)
        text = generate_latest(self._service.metrics.registry)
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    async def download(self, request: Request) -> Response:
        """Return the transcript of a room as a file."""
        self._limits.check(request, viewing=True)
        query = request.query_params
        form = query.get("format", "srt")
        if request.url.path.endswith("json"):
            form = "json"
        name = query.get("room", "")
        room = self._service.rooms.find(name)
        if room is None:
            raise RefusedError("room", f"room {name[:80]!r} does not exist", status=404)
        if form not in FORMATS:
            text = f"unknown format {form[:20]!r}; expected {', '.join(FORMATS)}"
            raise RefusedError("format", text, status=400)
        target = self._service.checks.target_code(query.get("target", ""))
        # Computing the cues of a long talk would block the event loop.
        content = await asyncio.to_thread(transcript, room, target, form, query.get("talk", ""))
        file_name = f"{room.name}.{target}.{form}"
        headers = {
            "content-disposition": f"attachment; {_file_name_parameter(file_name)}",
            "cache-control": "no-store",
        }
        return Response(content, media_type=FORMATS[form], headers=headers)

    async def captions(self, request: Request) -> Response:
        """Return the viewers' page or, for one target, the overlay; redirect to language codes."""
        query = dict(request.query_params)
        target = query.get("target")
        is_overlay = bool(target) and query.get("lines") != "all"
        if target:
            try:
                query["target"] = self._service.checks.target_code(target)
            except RefusedError:
                if is_overlay:
                    raise
                # On the page, the viewer chooses a language.
                del query["target"]
            if query.get("target") != target:
                return RedirectResponse(f"captions?{urlencode(query)}")
        if not is_overlay:
            return FileResponse(PAGES / "captions.html")
        policy = security_policy(self._limits.embed, style=" 'unsafe-inline'")
        return FileResponse(PAGES / "overlay.html", headers={"content-security-policy": policy})

    async def qr_code(self, request: Request) -> Response:
        """Return the QR code of a viewers' link as SVG."""
        # The extra ``qr`` is optional.
        import segno

        self._limits.check(request, viewing=True)
        parameters = request.query_params
        query = {}
        if room := parameters.get("room"):
            query["room"] = check_name(room)
        if target := parameters.get("target"):
            query["target"] = self._service.checks.target_code(target)
        path = parameters.get("path", "/")[:200]
        link = self._limits.viewers(str(request.base_url), path, **query)
        image = io.BytesIO()
        segno.make(link).save(image, kind="svg", scale=8, light="white")
        return Response(image.getvalue(), media_type="image/svg+xml")

    async def refused(self, _: Request, error: Exception) -> Response:
        """Return the response to a request that failed."""
        refusal = reported(error, self._service.metrics)
        headers: dict[str, str] = dict(HEADERS)
        if refusal.status in (429, 503):
            headers["retry-after"] = str(RETRY_S)
        content: dict[str, Any] = {"error": refusal.code, "message": str(refusal)}
        return JSONResponse(content, refusal.status, headers)


def _file_name_parameter(name: str) -> str:
    """Return the parameter of a ``Content-Disposition`` header (RFC 6266)."""
    if name.isascii():
        return f'filename="{name}"'
    return f"filename*=utf-8''{quote(name)}"
