"""Send the captions of a room to YouTube or Zoom in POST requests (``alignatt serve --publish``).

Both services accept plain text in UTF-8 and a counter ``seq``, which stays the same if a request
is repeated. For YouTube, a line before the text contains the UTC time at which the words were
spoken. Other addresses receive only text.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from alignatt_agent.config.errors import ConfigError
from alignatt_agent.config.languages import language
from alignatt_agent.live.subtitles import LINES, layout, width
from alignatt_agent.serve.messages import LINE, End, Ready, Said, Unit
from alignatt_agent.serve.rooms import Room, check_name
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

TIMEOUT_S, LONGEST_S, STALE_S = 10.0, 30.0, 60.0
EPOCH = 1_767_225_600
"""Start of 2026 in Unix time; ``seq`` starts at the number of seconds since then."""


def destination(text: str, known: Collection[str] = ()) -> tuple[str, str, str]:
    """Split ROOM:LANGUAGE=URL into room, language code, and URL; require a ``known`` language."""
    name, _, url = text.partition("=")
    room, _, target = name.partition(":")
    if urlsplit(url).scheme not in ("http", "https"):
        raise ConfigError(f"--publish: expected ROOM:LANGUAGE=https://..., got {name[:80]!r}")
    room = check_name(room)
    code = language(target).code
    if known and code not in known:
        raise ConfigError(f"--publish: the language must be one of {', '.join(known)}; got {code}")
    return room, code, url


async def publish(publisher: Callable[[str], AbstractContextManager[Room]], text: str) -> None:
    """Post captions to a ``destination`` until its room is closed.

    A failed request is repeated until its caption is stale. In the meantime, the speaker is told.
    """
    name, target, url = destination(text)
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    url += "&seq=" if "?" in url else "?seq="
    # Both services require that numbers keep increasing, even after a restart of this server.
    seq, spoken = int(time.time()) - EPOCH, 0.0
    with publisher(name) as room:
        captions: Captions = asyncio.Queue()
        reading = asyncio.create_task(_read(room, target, key, captions))
        while caption := await captions.get():
            spoken = max(caption.spoken, spoken + 0.001)
            body = caption.text
            if "youtube" in url:
                stamp = datetime.fromtimestamp(spoken, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
                body = f"{stamp[:-3]}\n{body}"
            kind = {"content-type": "text/plain; charset=utf-8"}
            request, pause = Request(f"{url}{seq}", f"{body}\n".encode(), kind), 1.0
            while caption.said_s > time.monotonic() - STALE_S:
                try:
                    (await asyncio.to_thread(urlopen, request, timeout=TIMEOUT_S)).close()
                    seq += 1
                    room.problems.pop(key, None)
                    break
                # Proxies and servers answer anything; whatever it is, the next attempt may succeed.
                except Exception as error:  # secrets in the URL must not be logged
                    cause = getattr(error, "code", type(error).__name__)
                    LOGGER.warning("%s did not accept a caption (%s)", request.host, cause)
                    since = time.strftime("%H:%M:%S")
                    problem = f"{request.host} has not accepted captions ({target}) since {since}"
                    room.problems.setdefault(key, f"{problem} ({cause}); they are sent again.")
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LONGEST_S)
            else:
                LOGGER.warning("%s: a caption is dropped because it is a minute late", request.host)
            room.note_posted(key, caption.event, caption.units)
        await reading


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
            spoken, text = self._last.spoken, self._last.text + text
        self._last = Caption(spoken, said_s, text.lstrip(), event, units)
        words = self._last.text.split()
        if ends_after(words, len(words), self._target) or width(self._last.text) >= self._width:
            self.flush(said_s)

    def flush(self, said_s: float) -> None:
        """Queue an incomplete caption as emitted at ``said_s``."""
        if self._last is not None and self._last.text:
            self._captions.put_nowait(self._last._replace(said_s=said_s))
        self._last = None


async def _read(room: Room, target: str, key: str, captions: Captions) -> None:
    """Queue the captions of a room when they are emitted, even while a POST request is slow.

    After a restart, captions that were emitted but not posted are queued, too.
    """
    lines, zero = _Lines(target, captions), 0.0
    try:
        async for event, content in room.follow():
            message, now = LINE.validate_json(content), time.monotonic()
            number = int(event.partition(".")[2])
            if isinstance(message, Ready) or not zero:
                zero = time.time() - now  # the system clock may be changed during a talk
            if isinstance(message, Said) and message.target == target:
                said_s = now - room.age(number, message.audio_s)
                for units, unit in enumerate(message.units, 1):
                    if (number, units) <= room.posted(key) or said_s < now - STALE_S:
                        continue  # posted before a restart, or too old
                    spoken = zero + said_s - (message.audio_s - unit.start)
                    lines.add(unit, spoken, said_s, event, units)
            if isinstance(message, End) or number == room.restored:
                lines.flush(now)
    finally:
        lines.flush(time.monotonic())
        captions.put_nowait(None)
