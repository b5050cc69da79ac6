"""Send the captions of a room to YouTube or Zoom in POST requests (``alignatt serve --publish``).

Both services accept plain text in UTF-8 and a counter ``seq``, which stays the same if a request
is repeated. For YouTube, a line before the text contains the UTC time at which the words were
spoken. Other addresses receive only text.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from alignatt_agent.config.errors import ConfigError
from alignatt_agent.config.languages import language
from alignatt_agent.live.subtitles import LINES, layout, width
from alignatt_agent.serve.messages import LINE, End, Ready, Said
from alignatt_agent.serve.rooms import Room, check_name
from alignatt_agent.speech.sentences import ends_after

LOGGER = logging.getLogger(__name__)

Captions = asyncio.Queue[tuple[float, float, str] | None]
"""Time of speech (Unix), time of emission (monotonic), and text; ``None`` marks the end."""

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


async def publish(viewer: Callable[[str], AbstractContextManager[Room]], given: str) -> None:
    """Post captions to a ``destination`` until its room is closed."""
    name, target, url = destination(given)
    url += "&seq=" if "?" in url else "?seq="
    # Both services require that numbers keep increasing, even after a restart of this server.
    seq, spoken = int(time.time()) - EPOCH, 0.0
    with viewer(name) as room:
        captions: Captions = asyncio.Queue()
        reading = asyncio.create_task(_read(room, target, captions))
        while found := await captions.get():
            spoken_s, said_s, text = found
            spoken = max(spoken_s, spoken + 0.001)
            if "youtube" in url:
                stamp = datetime.fromtimestamp(spoken, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
                text = f"{stamp[:-3]}\n{text}"
            kind = {"content-type": "text/plain; charset=utf-8"}
            request, pause = Request(f"{url}{seq}", f"{text}\n".encode(), kind), 1.0
            while said_s > time.monotonic() - STALE_S:
                try:
                    (await asyncio.to_thread(urlopen, request, timeout=TIMEOUT_S)).close()
                    seq += 1
                    break
                except (OSError, ValueError) as error:  # secrets in the URL must not be logged
                    cause = getattr(error, "code", type(error).__name__)
                    LOGGER.warning("%s did not accept a caption (%s)", request.host, cause)
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LONGEST_S)
            else:
                LOGGER.warning("%s: a caption is dropped because it is a minute late", request.host)
        await reading


async def _read(room: Room, target: str, captions: Captions) -> None:
    """Queue the captions of a room when they are emitted, even while a POST request is slow."""
    form, line, spoken, zero = layout(language(target)), "", 0.0, 0.0
    old = sum(1 for _ in room.messages())
    async for _, event in room.follow():
        message, old, now = LINE.validate_json(event), old - 1, time.monotonic()
        if isinstance(message, Ready) or not zero:
            zero = time.time() - now  # the system clock may be changed during a talk
        if isinstance(message, Said) and message.target == target and old < 0:
            for text, start, _, begins in message.units:
                if line and begins:
                    captions.put_nowait((spoken, now, line))
                    line = ""
                spoken = spoken if line else zero + now - (message.audio_s - start)
                line = (line + text).lstrip()
                words = line.split()
                if ends_after(words, len(words), target) or width(line) >= LINES * form.columns:
                    captions.put_nowait((spoken, now, line))
                    line = ""
        elif line and isinstance(message, End):
            captions.put_nowait((spoken, now, line))
            line = ""
    captions.put_nowait(None)
