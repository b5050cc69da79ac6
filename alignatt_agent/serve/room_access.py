"""Manage rooms, each with one speaker, any number of viewers, and the text so far.

The text of an empty room is kept in memory for ``keep_s``; a journal, if configured, keeps a copy.
"""

import asyncio
import secrets
import time
import unicodedata
from collections.abc import Iterator

from alignatt_agent.serve.access import LATER, POLICY, RefusedError
from alignatt_agent.serve.journal import Journal
from alignatt_agent.serve.messages import End
from alignatt_agent.serve.room import Room

MAX_NAME = 64
"""Maximum number of characters of a room name."""


def check_name(name: str) -> str:
    """Return a room name in Unicode's composed form (NFC); reject an invalid name.

    Keyboards and file systems write the same letter in composed or in decomposed form. Many scripts
    write vowels as combining marks, which have no composed form.
    """
    composed = unicodedata.normalize("NFC", name)
    if not _is_room_name(composed):
        text = f"a room name must consist of 1 to 64 letters, digits, - or _, got {name[:80]!r}"
        raise RefusedError("room", text, status=400)
    return composed


def _is_room_name(name: str) -> bool:
    if not 1 <= len(name) <= MAX_NAME:
        return False
    # A mark at the beginning would be shown as part of the character before the name.
    if _general_category(name[0]) == "M":
        return False
    for character in name:
        # Letters, marks, and numbers.
        if character not in "_-" and _general_category(character) not in "LMN":
            return False
    return True


def _general_category(character: str) -> str:
    """Return the main class of a character in Unicode, e.g. ``L`` for a letter."""
    return unicodedata.category(character)[0]


class Rooms:
    """The rooms and the journal of a server; an empty room is kept for ``keep_s`` seconds."""

    def __init__(self, keep_s: float, journal: Journal | None = None) -> None:
        self._keep_s = keep_s
        self._journal = journal or Journal()
        self._rooms: dict[str, Room] = {}
        self._left: dict[str, float] = {}  # time at which each room became empty
        for talk, key, lines, written in self._journal.talks():
            room = self.enter(key.room)
            room.restore(talk, key.session, lines, written)
            self.free(room)

    def __iter__(self) -> Iterator[Room]:
        return iter(self._rooms.values())

    def find(self, name: str) -> Room | None:
        """Return a room, or ``None`` if it does not exist."""
        return self._rooms.get(unicodedata.normalize("NFC", name))

    def enter(self, name: str, new: Room | None = None) -> Room:
        """Return a room, creating it if necessary; the caller must call ``leave`` later."""
        self._left.pop(name, None)
        return self._rooms.setdefault(name, new or Room(name, self._journal))

    def leave(self, room: Room) -> None:
        """Record that a speaker or viewer left; remove an empty room without text."""
        if room.viewers or room.publishers or not room.free.is_set():
            return
        if any(room.messages()):
            self._left[room.name] = time.monotonic()
        else:
            self._rooms.pop(room.name, None)
            room.forget()

    async def recall(self, session: str | None, kept_s: float | None) -> None:
        """End the old stream of a reconnected speaker who has kept the audio from ``kept_s`` on.

        The server may not have noticed that the old connection was lost.
        """
        for room in list(self):
            if room.back is not None and _is_key(room.session, session):
                resent = kept_s is not None and kept_s <= room.tail.start_s
                room.end_wait(resent)
                await room.free.wait()

    def free(self, room: Room) -> None:
        """Record that the speaker left; keep the room for ``keep_s`` if the talk is unfinished."""
        room.free.set()
        room.lost = False
        room.back = None
        room.held_until = time.monotonic()
        last_message = next(room.messages(1), None)
        if not isinstance(last_message, End):
            room.held_until += self._keep_s
        self.leave(room)

    def take(
        self,
        name: str | None,
        session: str | None,
        new: bool = False,
        text_s: float | None = None,
    ) -> Room:
        """Reserve a room for a speaker until ``free`` is called; for arguments, see ``Start``.

        A talk that the server has lost in a restart (``session`` is unknown) continues at
        ``text_s``, unless its room has been used since then.
        """
        room = self._room_of(session)
        if room is not None:
            # Only the speaker's own client may try again. Any other client would begin by itself
            # when the speaker stops.
            _require_free(room, LATER)
            if new:
                room.begin(_new_key())
        elif session is not None and not new:
            room = self._lost_room(name, text_s)
            _require_free(room, POLICY)
            room.begin(_new_key(), keep=True, text_s=text_s or 0.0)
        else:
            room = self._named(_new_key() if name is None else name)
            _require_free(room, POLICY)
            self._require_finished(room)
            room.begin(_new_key(), keep=True)
        room.free.clear()
        return self.enter(room.name, room)

    def _room_of(self, session: str | None) -> Room | None:
        """Return the room of a talk's key, or ``None`` if no talk has this key."""
        for room in self:
            if _is_key(room.session, session):
                return room
        return None

    def _named(self, name: str) -> Room:
        """Return the room with a name, or a new one that is not yet kept."""
        name = check_name(name)
        return self.find(name) or Room(name, self._journal)

    def _lost_room(self, name: str | None, text_s: float | None) -> Room:
        """Return the room of a talk that the server has lost in a restart."""
        if name is None or text_s is None:
            raise RefusedError("session", "this talk has ended: start a new talk")
        room = self._named(name)
        if room.has_text():
            text = f"another talk has begun in room {room.name!r}: start a new talk in another room"
            raise RefusedError("session", text)
        return room

    def _require_finished(self, room: Room) -> None:
        """Reject a new talk in a room whose speaker may still continue the old one."""
        if room.has_text() and time.monotonic() < room.held_until:
            fix = f"stop that talk, choose another name, or wait {self._keep_s / 60:.0f} minutes"
            raise RefusedError("room-held", f"room {room.name!r} has an unfinished talk: {fix}")

    def sweep(self) -> None:
        """Remove rooms that have been empty for ``keep_s`` seconds."""
        now = time.monotonic()
        for name, left in list(self._left.items()):
            if now - left >= self._keep_s:
                del self._left[name]
                self._rooms.pop(name).forget()

    async def close(self) -> None:
        """Disconnect the viewers after they have received all events; wait for the journal."""
        for room in self:
            room.close()
        await asyncio.to_thread(self._journal.flush)


def _require_free(room: Room, close: int) -> None:
    """Reject a speaker, with a WebSocket close code, while a room has another one."""
    if not room.free.is_set():
        text = (
            f"room {room.name!r} already has a speaker: choose another room, or start again "
            "after that talk"
        )
        raise RefusedError("room-taken", text, close)


def _new_key() -> str:
    """Return an unguessable key of a talk or name of a room."""
    return secrets.token_urlsafe(12)


def _is_key(key: str, guess: str | None) -> bool:
    """Compare a room's key in a time that does not depend on its letters."""
    # A room without a talk has no key.
    if not key or not guess:
        return False
    return secrets.compare_digest(key.encode(), guess.encode())
