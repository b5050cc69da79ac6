"""Access control for speakers and viewers, and limits for all clients."""

import ipaddress
import logging
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import partial
from hmac import compare_digest
from pathlib import Path
from urllib.parse import SplitResult, urlencode, urlsplit

from cachetools import TTLCache
from starlette.requests import HTTPConnection

from alignatt_agent.types import AlignAttError

LOGGER = logging.getLogger(__name__)

MAX_MESSAGE = 256 * 1024
"""Maximum length of a client's message, in bytes."""

MAX_EVENT = 20 * 2**20 + 4096
"""Maximum length of an OpenAI event, in bytes. It allows 15 MiB of base64-encoded audio."""

MOST_WAITING = 32
"""Maximum number of open WebSockets beyond the number of speaker slots."""

MOST_GUESSES, STRONG = 20, 16
"""Maximum number of wrong tokens per minute and address, and minimum token length after that."""

MOST_LOGGED = 120
"""Maximum number of lines about wrong tokens per minute, so that they cannot fill the log."""

LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")

POLICY, TOO_BIG, BROKEN, LATER, GOING = 1008, 1009, 1011, 1013, 1001
"""WebSocket close codes: forbidden, message too long, internal error, try later, shutdown."""

_STATUS = {POLICY: 403, TOO_BIG: 413, BROKEN: 500, LATER: 503, GOING: 503}


class RefusedError(AlignAttError):
    """Rejection of a request, with a code for programs, a message, and two status codes.

    The WebSocket close code, ``close``, determines the HTTP status if ``status`` is ``None``.
    """

    def __init__(
        self, code: str, message: str, close: int = POLICY, status: int | None = None
    ) -> None:
        super().__init__(public(message))
        self.code = code
        self.close = close
        self.status = status or _STATUS[close]


class ClosingError(RefusedError):
    """The end of a talk's connection because the server stops.

    ``kept`` tells whether the talk is stored and continues when the server is started again, and
    ``audio_s`` the time up to which its text is complete.
    """

    def __init__(self, kept: bool, audio_s: float) -> None:
        message = "the server is shutting down and does not store talks: save the text of this page"
        if kept:
            message = "the server is shutting down; the talk continues when it is started again"
        super().__init__("closing", message, GOING)
        self.kept = kept
        self.audio_s = audio_s


def gone(error: Exception) -> RefusedError:
    """Return the error for a talk whose engines failed."""
    return RefusedError(
        "engine", f"{error}; the engines are being restarted: try again in a minute", LATER
    )


def public(text: str) -> str:
    """Remove this machine's folder paths from a message, and truncate the message."""
    return re.sub(r"(?<![\w/:.~-])(?:/[^\s/'\":,;()]+)+/(?=[^\s/])", "", text)[:1500]


@dataclass(frozen=True, slots=True)
class Limits:
    """Tokens, allowed origins, and connection limits."""

    token: str | None = None  # secrets of speakers, one per line; each secret reserves a slot
    viewer_token: str | None = None  # secret of viewers
    origins: Collection[str] = ()  # other hosts whose pages may connect as speakers
    embed: Collection[str] = ()  # other hosts whose pages may show captions
    hosts: Collection[str] = ()  # host names of this server that clients may use; if empty, any
    address: str | None = None  # address in viewers' links, e.g. http://192.168.1.20:8080
    max_speakers: int = 2
    max_viewers: int = 200
    idle_s: float = 60.0  # time without a message after which a speaker is disconnected
    keep_s: float = 600.0  # time for which the text of an empty room is kept
    publish: Collection[str] = ()  # destinations of captions; see ``publish.destination``
    silent_s: float = 10.0  # limit for the first message; silence after which a slot is freed
    # Hashes of the wrong tokens received in the last minute, by address.
    guesses: TTLCache[str, set[int]] = field(default_factory=partial(TTLCache, 10_000, 60.0))
    # One entry for each line about a wrong token in the last minute.
    logged: TTLCache[object, None] = field(default_factory=partial(TTLCache, 2 * MOST_LOGGED, 60.0))
    journal: Path | None = None  # folder of the ``Journal``; if ``None``, no text is stored

    def viewers(self, base: str, path: str = "/", **query: str) -> str:
        """Return a link to captions that contains no token except the viewers' token.

        ``path`` is the path prefix that a proxy adds to the pages.
        """
        token = {"token": self.viewer_token} if self.viewer_token else {}
        base = (self.address or base).rstrip("/")
        below = "" if _split(base).path else path.rstrip("/")
        return f"{base}{below}/captions?{urlencode(query | token)}"

    def check(self, connection: HTTPConnection, viewing: bool = False) -> str:
        """Return the token of a connection; reject wrong tokens and pages from unknown hosts."""
        host = connection.headers.get("host", "")
        names = {*self.hosts, *(_host(origin) for origin in self.origins)}
        if self.hosts and _host(f"//{host}") not in names:
            # DNS rebinding: the host name of a foreign page now resolves to this machine.
            raise RefusedError(
                "host", f"unknown host name {host!r}: restart with --origin https://{host}"
            )
        origin = connection.headers.get("origin")
        known = {*self.origins, *(self.embed if viewing else ())}
        if origin and _split(origin).netloc != host and origin not in known:
            option = f"--{'embed' if viewing else 'origin'} {origin[:80]}"
            raise RefusedError("origin", f"origin {origin[:80]} is rejected: restart with {option}")
        token, client = _shown(connection), connection.client
        if not self.token:
            return token
        address = ":".join(client.host.split(":")[:4]) if client else ""  # IPv6: the network part
        wrong = self.guesses.get(address, set())
        wait = len(wrong) >= MOST_GUESSES
        if not wait or len(token) >= STRONG:
            if _is_one_of(token, self.token.splitlines()):
                return token
            if _is_one_of(token, [self.viewer_token or ""]):
                if viewing:
                    return token
                text = (
                    "this is the viewers' token: to speak, put the speakers' token into the address"
                )
                raise RefusedError("token", text, status=401)
        if wait:
            raise RefusedError("guesses", "too many wrong tokens: wait a minute", status=429)
        if not token:
            text = "this server requires a token: add ?token=... to the address"
            raise RefusedError("token", text, status=401)
        if hash(token) not in wrong:
            if self.logged.currsize < MOST_LOGGED:
                LOGGER.warning("wrong token from %s (%d within a minute)", address, len(wrong) + 1)
                self.logged[object()] = None
            self.guesses.setdefault(address, set()).add(hash(token))
        raise RefusedError("token", "wrong token: check ?token=... in the address", status=401)

    def rights(self, connection: HTTPConnection) -> dict[str, bool]:
        """Return what the token of a connection is good for, in addition to viewing."""
        token = _shown(connection)
        if not self.token:
            return {"speaker": True, "unused_token": bool(token)}
        return {"speaker": _is_one_of(token, self.token.splitlines()), "unused_token": False}


def _is_one_of(token: str, tokens: Collection[str]) -> bool:
    """Compare a token with all accepted ones, in a time that does not depend on its letters."""
    matches = [compare_digest(token.encode(), item.encode()) for item in tokens if item]
    return any(matches)


def is_loopback(host: str) -> bool:
    """Return whether an address is reachable only from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _shown(connection: HTTPConnection) -> str:
    """Return a request's token from the URL (browsers cannot set headers) or from a header."""
    scheme, _, value = connection.headers.get("authorization", "").partition(" ")
    given = value if scheme.lower() == "bearer" else ""
    return connection.query_params.get("token") or given.strip()


def _host(url: str) -> str:
    return _split(url).hostname or ""


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:  # e.g. http://[
        return urlsplit("")
