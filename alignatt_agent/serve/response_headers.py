"""Security headers of all responses."""

from collections.abc import Collection

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "permissions-policy": "microphone=(self)",
    "cache-control": "no-cache",
}
"""Headers of all responses: no referrer, because it may contain a token, and no stale scripts."""


def security_policy(embed: Collection[str], style: str = "") -> str:
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


class SafeHeaders:
    """Middleware that adds ``HEADERS`` and the content security policy to every response."""

    def __init__(self, app: ASGIApp, embed: Collection[str]) -> None:
        self._app = app
        self._headers = HEADERS | {"content-security-policy": security_policy(embed)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    # The overlay and downloads have values of their own.
                    headers.setdefault(name, value)
            await send(message)

        if scope["type"] == "http":
            await self._app(scope, receive, send_safely)
        else:
            await self._app(scope, receive, send)
