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

MOST_GUESSES = 20
"""Maximum number of wrong tokens per minute and address."""

STRONG = 16
"""Minimum length of a token that an address may still use after ``MOST_GUESSES``. Nobody guesses a
token of this length, so its owner is not locked out by others behind the same address."""

MOST_LOGGED = 120
"""Maximum number of lines about wrong tokens per minute, so that they cannot fill the log."""

LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")

GOING = 1001
"""WebSocket close code: the server shuts down."""

POLICY = 1008
"""WebSocket close code: the request is not allowed."""

TOO_BIG = 1009
"""WebSocket close code: the message is too long."""

BROKEN = 1011
"""WebSocket close code: internal error."""

LATER = 1013
"""WebSocket close code: try again later."""

_HTTP_STATUS = {POLICY: 403, TOO_BIG: 413, BROKEN: 500, LATER: 503, GOING: 503}


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
        self.status = status or _HTTP_STATUS[close]


class ClosingError(RefusedError):
    """The end of a talk's connection because the server stops.

    ``kept`` tells whether the talk is stored and continues when the server is started again, and
    ``audio_s`` the time up to which its text is complete.
    """

    def __init__(self, kept: bool, audio_s: float) -> None:
        if kept:
            message = "the server is shutting down; the talk continues when it is started again"
        else:
            message = (
                "the server is shutting down and does not store talks: save the text of this page"
            )
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
        if self.viewer_token:
            query["token"] = self.viewer_token
        base = (self.address or base).rstrip("/")
        # A public address with a path already contains the proxy's prefix.
        prefix = ""
        if not _split(base).path:
            prefix = path.rstrip("/")
        return f"{base}{prefix}/captions?{urlencode(query)}"

    def check(self, connection: HTTPConnection, viewing: bool = False) -> str:
        """Return the token of a connection; reject wrong tokens and pages from unknown hosts.

        Raises:
            RefusedError: the host name, the origin or the token is not accepted.
        """
        self._check_host(connection)
        self._check_origin(connection, viewing)
        token = _token_of(connection)
        if self.token:
            self._check_token(token, self.token.splitlines(), connection, viewing)
        return token

    def _check_host(self, connection: HTTPConnection) -> None:
        """Reject DNS rebinding, where the host name of a foreign page resolves to this machine."""
        if not self.hosts:
            return
        host = connection.headers.get("host", "")
        names = [_host(origin) for origin in self.origins]
        names += self.hosts
        if _host(f"//{host}") not in names:
            raise RefusedError(
                "host", f"unknown host name {host!r}: restart with --origin https://{host}"
            )

    def _check_origin(self, connection: HTTPConnection, viewing: bool) -> None:
        """Reject pages of other servers; other programs send no origin."""
        origin = connection.headers.get("origin")
        host = connection.headers.get("host", "")
        if not origin or _split(origin).netloc == host:
            return
        allowed = {*self.origins}
        option = "--origin"
        if viewing:
            allowed.update(self.embed)
            option = "--embed"
        if origin not in allowed:
            raise RefusedError(
                "origin",
                f"origin {origin[:80]} is rejected: restart with {option} {origin[:80]}",
            )

    def _check_token(
        self, token: str, speaker_tokens: Collection[str], connection: HTTPConnection, viewing: bool
    ) -> None:
        """Reject a wrong token; count it, because a token could be guessed with many attempts."""
        address = _network(connection)
        wrong_tokens = self.guesses.get(address, set())
        is_blocked = len(wrong_tokens) >= MOST_GUESSES
        # Of a blocked address, a short token is rejected even if it is right: it may be a guess.
        if not is_blocked or len(token) >= STRONG:
            if _is_one_of(token, speaker_tokens):
                return
            if _is_one_of(token, [self.viewer_token or ""]):
                if viewing:
                    return
                text = (
                    "this is the viewers' token: to speak, put the speakers' token into the address"
                )
                raise RefusedError("token", text, status=401)
        if is_blocked:
            raise RefusedError("guesses", "too many wrong tokens: wait a minute", status=429)
        if not token:
            text = "this server requires a token: add ?token=... to the address"
            raise RefusedError("token", text, status=401)
        # A client that repeats the same wrong token is not guessing.
        if hash(token) not in wrong_tokens:
            self._count_guess(token, address, len(wrong_tokens) + 1)
        raise RefusedError("token", "wrong token: check ?token=... in the address", status=401)

    def _count_guess(self, token: str, address: str, count: int) -> None:
        if self.logged.currsize < MOST_LOGGED:
            LOGGER.warning("wrong token from %s (%d within a minute)", address, count)
            self.logged[object()] = None
        self.guesses.setdefault(address, set()).add(hash(token))

    def rights(self, connection: HTTPConnection) -> dict[str, bool]:
        """Return what the token of a connection is good for, in addition to viewing."""
        token = _token_of(connection)
        if not self.token:
            return {"speaker": True, "unused_token": bool(token)}
        return {"speaker": _is_one_of(token, self.token.splitlines()), "unused_token": False}


def _is_one_of(token: str, tokens: Collection[str]) -> bool:
    """Compare a token with all accepted ones, in a time that does not depend on its letters."""
    is_accepted = False
    for accepted in tokens:
        # An empty line is no token. The loop does not stop at a match, to take the same time.
        if accepted and compare_digest(token.encode(), accepted.encode()):
            is_accepted = True
    return is_accepted


def is_loopback(host: str) -> bool:
    """Return whether an address is reachable only from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _token_of(connection: HTTPConnection) -> str:
    """Return a request's token from the URL (browsers cannot set headers) or from a header."""
    token = connection.query_params.get("token")
    if token:
        return token
    scheme, _, value = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        return ""
    return value.strip()


def _network(connection: HTTPConnection) -> str:
    """Return a client's IPv4 address or IPv6 network, in which a client can choose addresses."""
    if connection.client is None:
        return ""
    groups = connection.client.host.split(":")
    return ":".join(groups[:4])


def _host(url: str) -> str:
    return _split(url).hostname or ""


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:  # e.g. http://[
        return urlsplit("")
