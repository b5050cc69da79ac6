"""Send the captions of a room to YouTube or Zoom in POST requests (``alignatt serve --publish``).

Both services accept plain text in UTF-8 and a counter ``seq``, which stays the same if a request
is repeated. For YouTube, a line before the text contains the UTC time at which the words were
spoken. Other addresses receive only text.
"""

import asyncio
import hashlib
import logging
import re
import time
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from alignatt_agent.config.errors import ConfigError
from alignatt_agent.config.languages import language
from alignatt_agent.live.cues import LINES, layout, width
from alignatt_agent.serve.messages import LINE, End, Ready, Said, Unit
from alignatt_agent.serve.room import Room
from alignatt_agent.serve.room_access import check_name
from alignatt_agent.text.sentences import ends_after

LOGGER = logging.getLogger(__name__)


class Caption(NamedTuple):
    """A caption, and the unit with which it ends."""

    spoken: float  # Unix time of the speech
    said_s: float  # monotonic time of the emission
    text: str
    event: str  # id of an event
    units: int  # number of units of this event up to the end of the caption


Captions = asyncio.Queue[Caption | None]
"""Captions to be posted; ``None`` marks the end."""

TIMEOUT_S = 10.0
"""Seconds after which a request without a response has failed."""

LONGEST_S = 30.0
"""Longest pause between two attempts to post a caption, in seconds."""

STALE_S = 60.0
"""Age in seconds from which a caption is no longer posted."""

EPOCH = 1_767_225_600
"""Start of 2026 in Unix time; ``seq`` starts at the number of seconds since then."""


def destination(text: str, known: Collection[str] = ()) -> tuple[str, str, str]:
    """Split ROOM:LANGUAGE=URL into room, language code, and URL; require a ``known`` language."""
    name, _, url = text.partition("=")
    room, _, target = name.partition(":")
    if not _can_be_requested(url):
        # The address is a secret, so it is not shown.
        raise ConfigError(
            f"--publish: expected ROOM:LANGUAGE=https://HOST/... in ASCII, without spaces, # and "
            f"user names; the address after {name[:80]!r} cannot be requested"
        )
    room = check_name(room)
    code = language(target).code
    if known and code not in known:
        raise ConfigError(f"--publish: the language must be one of {', '.join(known)}; got {code}")
    return room, code, url


def _can_be_requested(url: str) -> bool:
    """Return whether urllib can request an address; otherwise every attempt would fail."""
    try:
        address = urlsplit(url)
        host = address.hostname or ""
        host.encode("idna")  # raises an error for an empty label, as in a..example
        has_host = bool(host) and address.port != 0  # raises an error for port 99999
    except ValueError:
        return False
    # http.client refuses spaces and other letters. urlsplit drops line breaks.
    is_clean = re.fullmatch("[!-~]+", url) is not None
    # urllib sends neither a fragment, so ``seq`` behind it would be lost, nor a user name.
    is_sent = "#" not in url and "@" not in address.netloc
    return address.scheme in ("http", "https") and has_host and is_clean and is_sent


async def publish(publisher: Callable[[str], AbstractContextManager[Room]], text: str) -> None:
    """Post captions to a ``destination`` until its room is closed.

    A failed request is repeated until its caption is stale. In the meantime, the speaker is told.
    """
    name, target, url = destination(text)
    # The address is a secret, so rooms and journals contain only its hash.
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    with publisher(name) as room:
        captions: Captions = asyncio.Queue()
        reading = asyncio.create_task(read_captions(room, target, key, captions))
        poster = _Poster(room, target, key, url)
        while caption := await captions.get():
            await poster.post(caption)
            # A caption that was dropped is not posted after a restart, either.
            room.note_posted(key, caption.event, caption.units)
        await reading


class _NoRedirects(HTTPRedirectHandler):
    """Makes a redirect an error.

    urllib would request the new address without the caption, and the login page of a proxy would
    count as a success.
    """

    def redirect_request(self, *_: Any) -> None:
        """Return no request to follow, so that the response is an error."""


class _Poster:
    """Posts the captions of a room to one address, in order."""

    def __init__(self, room: Room, target: str, key: str, url: str) -> None:
        self._room = room
        self._target = target
        self._key = key
        separator = "&" if "?" in url else "?"
        self._url = f"{url}{separator}seq="
        # Both services require that numbers keep increasing, even after a restart of this server.
        self._seq = int(time.time()) - EPOCH
        self._spoken = 0.0
        self._opener = build_opener(_NoRedirects)

    async def post(self, caption: Caption) -> None:
        """Post a caption; repeat failed requests until the caption is stale."""
        # Words are translated in another order than they are spoken, but times must increase.
        self._spoken = max(caption.spoken, self._spoken + 0.001)
        request = self._request(caption.text)
        pause_s = 1.0
        while caption.said_s > time.monotonic() - STALE_S:
            if await self._send(request):
                return
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_S)
        LOGGER.warning("%s: a caption is dropped because it is a minute late", request.host)

    def _request(self, text: str) -> Request:
        body = text
        if "youtube" in self._url:
            spoken_at = datetime.fromtimestamp(self._spoken, UTC)
            stamp = spoken_at.strftime("%Y-%m-%dT%H:%M:%S.%f")
            # YouTube expects milliseconds, Python writes microseconds.
            body = f"{stamp[:-3]}\n{text}"
        return Request(
            url=f"{self._url}{self._seq}",
            data=f"{body}\n".encode(),
            headers={"content-type": "text/plain; charset=utf-8"},
        )

    async def _send(self, request: Request) -> bool:
        """Send a request; return whether it succeeded."""
        try:
            response = await asyncio.to_thread(self._opener.open, request, timeout=TIMEOUT_S)
            response.close()
        # Proxies and servers answer anything; whatever it is, the next attempt may succeed.
        except Exception as error:
            self._note_failure(request.host, error)
            return False
        # A repeated request has the same number, so a caption is never shown twice.
        self._seq += 1
        self._room.problems.pop(self._key, None)
        return True

    def _note_failure(self, host: str, error: Exception) -> None:
        # The error itself may contain the URL with its secrets.
        cause = getattr(error, "code", type(error).__name__)
        LOGGER.warning("%s did not accept a caption (%s)", host, cause)
        since = time.strftime("%H:%M:%S")
        problem = f"{host} has not accepted captions ({self._target}) since {since}"
        # The speaker sees the time of the first failure.
        self._room.problems.setdefault(self._key, f"{problem} ({cause}); they are sent again.")


class _Lines:
    """Collects units into captions: one sentence or two lines at a time."""

    def __init__(self, target: str, captions: Captions) -> None:
        self._target = target
        self._width = LINES * layout(language(target)).columns
        self._captions = captions
        self._last: Caption | None = None  # the caption so far

    def add(self, unit: Unit, spoken: float, said_s: float, event: str, units: int) -> None:
        """Add a unit, the ``units``-th of an event, and queue the captions that are complete."""
        if unit.begins:
            self.flush(said_s)
        text = unit.text
        if self._last is not None:
            spoken = self._last.spoken
            text = self._last.text + text
        text = text.lstrip()
        self._last = Caption(spoken, said_s, text, event, units)
        words = text.split()
        is_sentence = ends_after(words, len(words), self._target)
        if is_sentence or width(text) >= self._width:
            self.flush(said_s)

    def flush(self, said_s: float) -> None:
        """Queue an incomplete caption as emitted at ``said_s``."""
        if self._last is not None and self._last.text:
            self._captions.put_nowait(self._last._replace(said_s=said_s))
        self._last = None


async def read_captions(room: Room, target: str, key: str, captions: Captions) -> None:
    """Queue the captions of a room when they are emitted, even while a POST request is slow.

    After a restart, captions that were emitted but not posted are queued, too.
    """
    lines = _Lines(target, captions)
    clock_offset: float | None = None  # Unix time minus monotonic time
    try:
        async for event, content in room.follow():
            message = LINE.validate_json(content)
            now = time.monotonic()
            _, _, digits = event.partition(".")
            number = int(digits)
            # The offset is kept, because the system clock may be changed during a talk.
            if isinstance(message, Ready) or clock_offset is None:
                clock_offset = time.time() - now
            if isinstance(message, Said) and message.target == target:
                said_s = now - room.age(number, message.audio_s)
                posted = room.posted(key)
                for units, unit in enumerate(message.units, 1):
                    # Posted before a restart, or too old.
                    if (number, units) <= posted or said_s < now - STALE_S:
                        continue
                    delay_s = message.audio_s - unit.start
                    spoken = clock_offset + said_s - delay_s
                    lines.add(unit, spoken, said_s, event, units)
            # Events from before a restart end inside a caption that nobody continues.
            if isinstance(message, End) or number == room.restored:
                lines.flush(now)
    finally:
        lines.flush(time.monotonic())
        captions.put_nowait(None)
