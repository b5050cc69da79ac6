"""Captions of a room as POSTs to YouTube or Zoom (``alignatt serve --publish``).

Both take plain text in UTF-8 and a counter ``seq``, which a repeated POST keeps. YouTube has a line
with the time in UTC at which the words were spoken before the text; any other address gets text.
"""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from math import inf
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from alignatt_agent.config.errors import ConfigError
from alignatt_agent.config.languages import language
from alignatt_agent.live.subtitles import LINES, layout, width
from alignatt_agent.serve.rooms import Room, check_name
from alignatt_agent.speech.sentences import ends_after

LOGGER = logging.getLogger(__name__)

TIMEOUT_S, LONGEST_S, STALE_S = 10.0, 30.0, 60.0


def destination(text: str, known: Collection[str] = ()) -> tuple[str, str, str]:
    """Return room, code of the language, one of the ``known``, and address of ROOM:LANGUAGE=URL."""
    name, _, url = text.partition("=")
    room, _, target = name.partition(":")
    if urlsplit(url).scheme not in ("http", "https"):
        raise ConfigError(f"--publish has to be like talk:de=https://..., got {name[:80]!r}=...")
    check_name(room)
    code = language(target).code
    if known and code not in known:
        raise ConfigError(f"--publish: expected one of {', '.join(known)}, got {code}")
    return room, code, url


async def publish(viewer: Callable[[str], AbstractContextManager[Room]], given: str) -> None:
    """Post the captions of a ``destination`` until its room is closed."""
    name, target, url = destination(given)
    url += "&seq=" if "?" in url else "?seq="
    seq, spoken = 0, 0.0
    with viewer(name) as room:
        async for time_s, text in _captions(room, target):
            # A talk that is sent faster than it was spoken moves what is known of its beginning.
            spoken = max(time_s, spoken + 0.001)
            if "youtube" in url:
                stamp = datetime.fromtimestamp(spoken, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
                text = f"{stamp[:-3]}\n{text}"
            kind = {"content-type": "text/plain; charset=utf-8"}
            request, pause = Request(f"{url}{seq}", f"{text}\n".encode(), kind), 1.0
            while spoken > time.time() - STALE_S:
                try:
                    (await asyncio.to_thread(urlopen, request, timeout=TIMEOUT_S)).close()
                    seq += 1
                    break
                except (OSError, ValueError) as error:  # only the host is named: secrets follow
                    cause = getattr(error, "code", type(error).__name__)
                    LOGGER.warning("%s did not take a caption (%s)", request.host, cause)
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LONGEST_S)


async def _captions(room: Room, target: str) -> AsyncIterator[tuple[float, str]]:
    """Yield new text, a sentence or two lines, with the time by the clock when it was spoken."""
    form, line, spoken, begin = layout(language(target)), "", 0.0, inf
    old = sum(1 for _ in room.messages())
    async for _, event in room.follow():
        message, old = json.loads(event), old - 1
        if message["type"] == "ready":
            begin = inf
        begin = min(begin, time.time() - message.get("audio_s", -inf))  # of the audio, by the clock
        units = message.get("units", ()) if message.get("target") == target and old < 0 else ()
        for text, start, _, begins in units:
            if line and begins:
                yield spoken, line
                line = ""
            spoken = spoken if line else begin + start
            line = (line + text).lstrip()
            words = line.split()
            if ends_after(words, len(words), target) or width(line) >= LINES * form.columns:
                yield spoken, line
                line = ""
        if line and message["type"] == "end":
            yield spoken, line
            line = ""
