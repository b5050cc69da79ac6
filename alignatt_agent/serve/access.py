"""Access of speakers and viewers, and the limits of all clients."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from starlette.requests import HTTPConnection

from alignatt_agent.types import AlignAttError

MAX_MESSAGE = 256 * 1024
"""Longest message of a client, in bytes."""

MAX_EVENT = 20 * 2**20 + 4096
"""Longest event of OpenAI's wire, in bytes: 15 MiB of audio in base64."""

MOST_WAITING = 32
"""WebSockets that may be open in addition to speakers, e.g. before a first message."""

LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")

POLICY, TOO_BIG, BROKEN, LATER, GOING = 1008, 1009, 1011, 1013, 1001
"""Close codes of WebSockets: not allowed, message too long, internal, try later, server stops."""

_STATUS = {POLICY: 403, TOO_BIG: 413, BROKEN: 500, LATER: 503, GOING: 503}


class RefusedError(AlignAttError):
    """A request that is refused.

    Args:
        code: one word for programs.
        message: what came, what was expected and the fix.
        close: close code of a WebSocket.
        status: HTTP status; default: the one of ``close``.
    """

    def __init__(
        self, code: str, message: str, close: int = POLICY, status: int | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.close = close
        self.status = status or _STATUS[close]


@dataclass(frozen=True, slots=True)
class Limits:
    """Who may connect, and how many.

    Attributes:
        token: secret of speakers; ``None``: no secret is needed.
        viewer_token: secret that is enough for viewers.
        origins: of pages on other hosts that may connect, e.g. ``https://talks.example.org``.
        hosts: names of the server that clients may use; empty for any.
        max_speakers: streams at a time.
        max_viewers: viewers at a time.
        idle_s: seconds without a message after which a speaker is disconnected.
        keep_s: seconds that the text of an empty room is kept.
        publish: where captions go, see ``publish.destination``.
    """

    token: str | None = None
    viewer_token: str | None = None
    origins: Collection[str] = ()
    hosts: Collection[str] = ()
    max_speakers: int = 2
    max_viewers: int = 200
    idle_s: float = 60.0
    keep_s: float = 600.0
    publish: Collection[str] = ()

    def check(self, connection: HTTPConnection, viewing: bool = False) -> None:
        """Refuse a connection without the token, or from a page of another host."""
        host = connection.headers.get("host", "")
        names = {*self.hosts, *(_host(origin) for origin in self.origins)}
        if self.hosts and _host(f"//{host}") not in names:
            # DNS rebinding: a foreign page whose host name now points to this machine.
            raise RefusedError(
                "host", f"this server is not known as {host!r}: add --origin https://{host}"
            )
        origin = connection.headers.get("origin")
        if origin and _split(origin).netloc != host and origin not in self.origins:
            shown = origin[:80]
            raise RefusedError("origin", f"a page of {shown} may not connect: add --origin {shown}")
        accepted = [item for item in (self.token, viewing and self.viewer_token) if item]
        if self.token and not any(_same(_shown(connection), item) for item in accepted):
            raise RefusedError(
                "token", "missing or wrong token: add ?token=... to the address", status=401
            )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _shown(connection: HTTPConnection) -> str:
    """Return the token of a request; browsers cannot set headers of WebSockets."""
    scheme, _, value = connection.headers.get("authorization", "").partition(" ")
    given = value if scheme.lower() == "bearer" else ""
    return connection.query_params.get("token") or given.strip()


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


def _host(url: str) -> str:
    return _split(url).hostname or ""


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:  # e.g. http://[
        return urlsplit("")
