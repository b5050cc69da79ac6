"""Rooms: one speaker, any number of viewers, and the text so far.

Nothing is written to a disk: the text of a room stays in memory for a while after it is empty.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from alignatt_agent.serve.access import LATER, RefusedError

MAX_EVENTS = 50_000
"""Events that a room keeps: several hours of speech in a few languages."""

MOST_DIGITS = 9
"""Of an event's number that a viewer names."""

_NAME = re.compile(r"[\w-]{1,64}")

Message = dict[str, Any]
"""A JSON message to clients; its kind is ``type``."""


@dataclass(frozen=True, slots=True)
class Event:
    """A message to viewers as JSON; ``id``, for ``Last-Event-ID``, is the talk and a number."""

    id: str
    text: str


class Room:
    """The messages of one speaker, for viewers of now and later.

    Attributes:
        name: viewers ask for it.
        viewers: their number.
        speaking: whether the room has a speaker now.
        session: secret of the last speaker, who resumes with it after a lost connection.
        audio_s: seconds of audio of the talk so far.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.viewers = 0
        self.speaking = False
        self._closed = False
        self._news = asyncio.Event()
        self.begin()

    def begin(self, session: str = "") -> None:
        """Start a new talk and forget the old one."""
        self.session = session
        self.audio_s = 0.0
        self._talk = secrets.token_hex(4)
        self._texts: list[str] = []
        self._dropped = 0  # number of old events that are no longer kept
        self._wake()

    def publish(self, message: Mapping[str, Any]) -> str:
        """Send a message to all viewers and keep it; returns the id of the event."""
        self._texts.append(json.dumps(message, ensure_ascii=False))
        if len(self._texts) > MAX_EVENTS:
            drop = MAX_EVENTS // 10
            del self._texts[:drop]
            self._dropped += drop
        self._wake()
        return f"{self._talk}.{self._dropped + len(self._texts)}"

    def messages(self, last: int = 0) -> Iterator[Message]:
        """Return the kept messages, or the ``last`` ones, oldest first."""
        return map(json.loads, self._texts[-last:])

    def missed(self, since: str) -> Iterator[Message]:
        """Return the text after the event ``since``, each message with its ``id``."""
        begin = max(self._position(since), self._dropped)
        for number, text in enumerate(self._texts[begin - self._dropped :], begin + 1):
            message = json.loads(text)
            if message["type"] == "said":
                yield message | {"id": f"{self._talk}.{number}"}

    async def follow(self, since: str = "") -> AsyncIterator[Event]:
        """Yield the events after ``since``, as they come, until the room is closed."""
        talk, position = self._talk, self._position(since)
        while True:
            news = self._news
            if talk != self._talk:
                talk, position = self._talk, 0
            position = max(position, self._dropped)
            for text in self._texts[position - self._dropped :]:
                position += 1
                yield Event(f"{talk}.{position}", text)
                if talk != self._talk:
                    break
            else:
                if self._closed:
                    return
                await news.wait()

    def _position(self, since: str) -> int:
        """Return the number of events of this talk up to the event ``since``."""
        talk, _, number = since.partition(".")
        known = self._dropped + len(self._texts)
        if talk != self._talk or not number.isdecimal() or len(number) > MOST_DIGITS:
            return 0
        return min(int(number), known)

    def close(self) -> None:
        """Disconnect the viewers once they have all events."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


def check_name(name: str) -> None:
    """Refuse what cannot be the name of a room."""
    if not _NAME.fullmatch(name):
        text = f"a room has a name of 1 to 64 letters, digits, - and _, got {name[:80]!r}"
        raise RefusedError("room", text, status=400)


class Rooms:
    """The rooms of a server; the text of an empty one is kept for ``keep_s`` seconds."""

    def __init__(self, keep_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._keep_s = keep_s
        self._clock = clock
        self._rooms: dict[str, Room] = {}
        self._left: dict[str, float] = {}  # when a room became empty

    def __iter__(self) -> Iterator[Room]:
        return iter(self._rooms.values())

    def find(self, name: str) -> Room | None:
        """Return a room, if there is one."""
        return self._rooms.get(name)

    def enter(self, name: str) -> Room:
        """Return a room, a new one if there is none; ``leave`` has to follow."""
        self._left.pop(name, None)
        return self._rooms.setdefault(name, Room(name))

    def leave(self, room: Room) -> None:
        """Note that a speaker or viewer left; an empty room without text is forgotten at once."""
        if room.viewers or room.speaking:
            return
        if any(room.messages()):
            self._left[room.name] = self._clock()
        else:
            self._rooms.pop(room.name, None)

    def take(self, name: str | None, session: str | None) -> Room:
        """Return the room for a speaker, who has it alone until ``leave``.

        Args:
            name: of the room; ``None`` for an unguessable one.
            session: secret of a session to resume.
        """
        if session is not None:
            found = [room for room in self if _is(room.session, session)]
            if not found:
                raise RefusedError("session", "this talk is over: start a new one")
            room = found[0]
        else:
            if name is not None:
                check_name(name)
            room = self.enter(name or secrets.token_urlsafe(12))
        if room.speaking:
            raise RefusedError(
                "room-taken", f"somebody speaks in room {room.name!r} already", LATER
            )
        if session is None:
            room.begin(secrets.token_urlsafe(12))
        self._left.pop(room.name, None)
        room.speaking = True
        return room

    def sweep(self) -> None:
        """Forget rooms that have been empty for ``keep_s`` seconds."""
        now = self._clock()
        for name, left in list(self._left.items()):
            if now - left >= self._keep_s:
                del self._left[name], self._rooms[name]


def _is(one: str, other: str) -> bool:
    return bool(one) and secrets.compare_digest(one.encode(), other.encode())
