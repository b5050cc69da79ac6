"""Rooms: one speaker, any number of viewers, and what was said so far.

Nothing is written to a disk: a room's text is in memory until a while after the last one left.
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
"""Events that a room remembers: several hours of speech into a few languages."""

_NAME = re.compile(r"[\w-]{1,64}")

Message = dict[str, Any]
"""What is sent to clients; ``type`` says what it is."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that viewers see.

    Attributes:
        id: for ``Last-Event-ID``: the talk and a number that grows by one.
        text: the message as JSON; encoded once for all viewers.
    """

    id: str
    text: str


class Room:
    """What one speaker says, for those who look on now and for those who come later.

    Args:
        name: what viewers ask for.

    Attributes:
        viewers: how many look on.
        speaking: whether somebody speaks.
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
        """Start another talk; what was said before is forgotten."""
        self.session = session
        self.audio_s = 0.0
        self._talk = secrets.token_hex(4)
        self._texts: list[str] = []
        self._dropped = 0  # oldest events that are no longer remembered
        self._wake()

    def publish(self, message: Mapping[str, Any]) -> str:
        """Show a message to all viewers and remember it; returns the id of the event."""
        self._texts.append(json.dumps(message, ensure_ascii=False))
        if len(self._texts) > MAX_EVENTS:
            drop = MAX_EVENTS // 10
            del self._texts[:drop]
            self._dropped += drop
        self._wake()
        return f"{self._talk}.{self._dropped + len(self._texts)}"

    def messages(self) -> Iterator[Message]:
        """Return what is remembered, oldest first."""
        return map(json.loads, list(self._texts))

    def missed(self, since: str) -> Iterator[Message]:
        """Return what was said after the event ``since``, each with its ``id``."""
        begin = max(self._position(since), self._dropped)
        for number, text in enumerate(self._texts[begin - self._dropped :], begin + 1):
            message = json.loads(text)
            if message["type"] == "said":
                yield message | {"id": f"{self._talk}.{number}"}

    async def follow(self, since: str = "") -> AsyncIterator[Event]:
        """Show everything that was said and will be; ends when the room is closed.

        Args:
            since: id of the last event that the viewer has seen.
        """
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
        """Return how many events of this talk were there with the event ``since``."""
        talk, _, number = since.partition(".")
        known = self._dropped + len(self._texts)
        return min(int(number), known) if talk == self._talk and number.isdecimal() else 0

    def close(self) -> None:
        """Let the viewers go once they have seen everything."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


def check_name(name: str) -> None:
    """Refuse what cannot be the name of a room.

    Raises:
        RefusedError: it is too long, or holds other than letters, digits, - and _.
    """
    if not _NAME.fullmatch(name):
        raise RefusedError(
            "room", f"a room has a name of 1 to 64 letters, digits, - and _, got {name[:80]!r}"
        )


class Rooms:
    """The rooms of a server.

    Args:
        keep_s: seconds that an empty room's text is remembered.
        clock: seconds.
    """

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
        """Return a room, a new one if need be; ``leave`` has to follow."""
        self._left.pop(name, None)
        return self._rooms.setdefault(name, Room(name))

    def leave(self, room: Room) -> None:
        """Note that somebody left; the last one starts the clock, if there is anything to keep."""
        if room.viewers or room.speaking:
            return
        if any(room.messages()):
            self._left[room.name] = self._clock()
        else:
            self._rooms.pop(room.name, None)

    def take(self, name: str | None, session: str | None) -> Room:
        """Return the room for a speaker, who has it alone until ``leave``.

        Args:
            name: of the room; ``None`` for one that nobody can guess.
            session: secret of the session that is to go on.

        Raises:
            RefusedError: somebody else speaks there, or there is no such session.
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
        """Forget what nobody has looked at for a while."""
        now = self._clock()
        for name, left in list(self._left.items()):
            if now - left >= self._keep_s:
                del self._left[name], self._rooms[name]


def _is(one: str, other: str) -> bool:
    return bool(one) and secrets.compare_digest(one.encode(), other.encode())
