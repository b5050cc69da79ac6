"""Manage rooms, each with one speaker, any number of viewers, and the text so far.

The text of an empty room is kept in memory for ``keep_s``; a journal, if configured, keeps a copy.
"""

import asyncio
import secrets
import time
import unicodedata
from collections.abc import AsyncIterator, Collection, Iterator, Sequence

from alignatt_agent.serve.access import LATER, POLICY, RefusedError
from alignatt_agent.serve.journal import Journal
from alignatt_agent.serve.messages import (
    LINE,
    EarlierTalk,
    End,
    Event,
    Gap,
    Key,
    Message,
    Posted,
    Ready,
    Said,
    Tail,
)

MAX_EVENTS = 50_000
"""Maximum number of events in a room, enough for several hours in a few languages."""

MOST_DIGITS = 9
"""Maximum number of digits in an event number from a viewer."""

MAX_EARLIER = 20
"""Maximum number of finished talks of a room whose text is kept beside the current talk."""

MAX_NAME = 64
"""Maximum number of characters of a room name."""


class Room:
    """The messages of one speaker, for current and later viewers.

    The key ``session`` lets a speaker continue the talk from the state ``tail``.
    """

    def __init__(self, name: str, journal: Journal | None = None) -> None:
        self.name = name
        self.viewers = self.publishers = 0
        self.problems: dict[str, str] = {}  # faults of publishers, by destination
        self.free = asyncio.Event()  # set while the room is free
        self.free.set()
        self.held_until = 0.0  # until this time, no other speaker may begin a talk
        self.back: asyncio.Future[bool] | None = None  # result: whether the audio is resent
        self.lost = False  # whether the speaker's connection was lost
        self._earlier: dict[str, tuple[EarlierTalk, list[str]]] = {}  # texts by name of the talk
        self._texts: list[str] = []
        self._closed = False
        self._journal = journal or Journal()
        self._talk = ""
        self._news = asyncio.Event()
        self.begin()

    def begin(self, session: str = "", keep: bool = False, text_s: float = 0.0) -> None:
        """Start a new talk at ``text_s``; discard the old one or ``keep`` its text."""
        if keep and self.has_text():
            self._put_away()
        else:
            self._journal.forget(self._talk)
        self._talk = secrets.token_hex(8)
        self.session = session
        self.tail = Tail.at(text_s)
        self.text_s = text_s
        self.title = ""
        self.restored = 0  # number of events that come from the journal
        self._written = 0.0
        self._posted: dict[str, tuple[int, int]] = {}
        self.targets: set[str] = set()  # languages of the talk
        self._texts = []
        self._dropped = 0  # number of old events that are no longer kept
        if session:
            key = Key(room=self.name, session=session)
            self._journal.append(self._talk, key.model_dump_json())
        self._wake()

    def end_wait(self, resent: bool = False) -> None:
        """End the stream of a speaker who reconnected (``resent``: with audio) or is replaced."""
        if self.back and not self.back.done():
            self.back.set_result(resent)

    def forget(self) -> None:
        """Remove all talks from the journal."""
        for talk in (self._talk, *self._earlier):
            self._journal.forget(talk)

    def restore(
        self, talk: str, session: str, lines: Sequence[Message], written: float = 0.0
    ) -> None:
        """Restore a talk from the journal; an older talk of this room becomes an earlier one.

        ``written`` is the Unix time of the last line.
        """
        self.begin(keep=True)
        self._talk, self.session = talk, session
        for line in lines:
            if isinstance(line, Tail):
                self.tail = line
            elif isinstance(line, Posted):
                self._posted[line.destination] = line.event, line.units
            else:
                self._note(line)
                self._keep(line.model_dump_json())
        self.restored = self._dropped + len(self._texts)
        self._written = written

    def age(self, number: int, audio_s: float) -> float:
        """Return the approximate age of an event from before a restart; 0 for later events."""
        if number > self.restored:
            return 0.0
        return max(0.0, time.time() - self._written + self.tail.audio_s - audio_s)

    def posted(self, destination: str) -> tuple[int, int]:
        """Return the last event of this talk that was posted, and the number of its units."""
        return self._posted.get(destination, (0, 0))

    def note_posted(self, destination: str, event_id: str, units: int) -> None:
        """Record that the text up to these units of an event was posted."""
        talk, _, number = event_id.partition(".")
        if talk == self._talk:
            self._posted[destination] = int(number), units
            line = Posted(destination=destination, event=int(number), units=units)
            self._journal.append(talk, line.model_dump_json())

    async def publish(self, *found: Message, tail: Tail | None = None) -> list[Message]:
        """Send events to all viewers; keep the events and the new state.

        The journal is written first, so that it contains every event that a viewer has received.
        Returns all messages; the events contain their ids.
        """
        self.tail = tail or self.tail
        for message in found:
            self._note(message)
        texts = [one.model_dump_json() if isinstance(one, Event) else "" for one in found]
        lines = [*filter(None, texts), self.tail.model_dump_json()]
        try:
            if written := self._journal.append(self._talk, *lines):
                await asyncio.shield(asyncio.wrap_future(written))
        finally:  # even if the speaker disconnects during the wait
            ids = [text and self._keep(text) for text in texts]
            self._wake()
        named = zip(found, ids, strict=True)
        return [one.model_copy(update={"id": key}) if key else one for one, key in named]

    def _note(self, message: Message) -> None:
        if isinstance(message, Ready):
            self.targets.update(message.targets)
            self.title = message.title or self.title
            self.text_s = message.text_s or 0.0
        if isinstance(message, Said):
            self.targets.add(message.target)

    def has_text(self) -> bool:
        """Return whether something was said in the talk."""
        return any(isinstance(message, Said) for message in self.messages())

    def stored(self) -> bool:
        """Return whether the journal has the whole talk, so that it survives the server."""
        return self._journal.stores(self._talk)

    def earlier(self) -> tuple[EarlierTalk, ...]:
        """Return the finished talks of this room whose text is still there, oldest first."""
        return tuple(talk for talk, _ in self._earlier.values())

    def talk(self, name: str) -> tuple[Collection[str], Iterator[Message]]:
        """Return the targets and messages of an earlier talk or of the talk of this name."""
        if name not in self._earlier:
            if name != self._talk:
                raise RefusedError("talk", f"this room has no talk {name[:40]!r}", status=404)
            return self.targets, self.messages()
        talk, texts = self._earlier[name]
        return talk.targets, map(LINE.validate_json, texts)

    def _put_away(self) -> None:
        talk = EarlierTalk(talk=self._talk, title=self.title, targets=tuple(sorted(self.targets)))
        self._earlier[self._talk] = talk, self._texts
        if len(self._earlier) > MAX_EARLIER:
            oldest = next(iter(self._earlier))
            del self._earlier[oldest]
            self._journal.forget(oldest)

    def _keep(self, text: str) -> str:
        self._texts.append(text)
        if len(self._texts) > MAX_EVENTS:
            drop = MAX_EVENTS // 10
            del self._texts[:drop]
            self._dropped += drop
        return f"{self._talk}.{self._dropped + len(self._texts)}"

    def messages(self, last: int = 0) -> Iterator[Message]:
        """Return all kept messages, or only the ``last`` of them, oldest first."""
        return map(LINE.validate_json, self._texts[-last:])

    def missed(self, since: str) -> Iterator[Message]:
        """Yield the text messages and gaps after the event ``since``, each with its ``id``."""
        begin = max(self._position(since), self._dropped)
        for number, text in enumerate(self._texts[begin - self._dropped :], begin + 1):
            message = LINE.validate_json(text)
            if isinstance(message, Said | Gap):
                yield message.model_copy(update={"id": f"{self._talk}.{number}"})

    async def follow(self, since: str = "") -> AsyncIterator[tuple[str, str]]:
        """Yield the events after ``since`` as they occur, until the room is closed.

        An event consists of an id (talk and number, for ``Last-Event-ID``) and a message as JSON.
        """
        talk, position = self._talk, self._position(since)
        while True:
            news = self._news
            if talk != self._talk:
                talk, position = self._talk, 0
            position = max(position, self._dropped)
            for text in self._texts[position - self._dropped :]:
                position += 1
                yield f"{talk}.{position}", text
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
        """Disconnect the viewers after they have received all events."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


def check_name(name: str) -> str:
    """Return a room name in Unicode's composed form (NFC); reject an invalid name.

    Keyboards and file systems write the same letter in composed or in decomposed form. Many scripts
    write vowels as combining marks, which have no composed form.
    """
    composed = unicodedata.normalize("NFC", name)
    valid = 1 <= len(composed) <= MAX_NAME and not unicodedata.category(composed[0]).startswith("M")
    for character in composed:
        valid = valid and (character in "_-" or unicodedata.category(character)[0] in "LMN")
    if not valid:
        text = f"a room name must consist of 1 to 64 letters, digits, - or _, got {name[:80]!r}"
        raise RefusedError("room", text, status=400)
    return composed


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
        for room in [one for one in self if one.back and _is(one.session, session or "")]:
            room.end_wait(kept_s is not None and kept_s <= room.tail.start_s)
            await room.free.wait()

    def free(self, room: Room) -> None:
        """Record that the speaker left; keep the room for ``keep_s`` if the talk is unfinished."""
        room.free.set()
        room.lost, room.back = False, None
        ended = any(isinstance(message, End) for message in room.messages(1))
        room.held_until = time.monotonic() + self._keep_s * (not ended)
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
        room = next((room for room in self if _is(room.session, session or "")), None)
        holder = room is not None
        continues = session is not None and not new
        if room is None:
            if continues and (name is None or text_s is None):
                raise RefusedError("session", "this talk has ended: start a new talk")
            name = secrets.token_urlsafe(12) if name is None else check_name(name)
            room = self.find(name) or Room(name, self._journal)
            if continues and room.has_text():
                text = f"another talk has begun in room {name!r}: start a new talk in another room"
                raise RefusedError("session", text)
        if not room.free.is_set():
            # A client that waits would begin by itself when the speaker stops. Only the speaker's
            # own client may try again.
            text = (
                f"room {room.name!r} already has a speaker: choose another room, or start again "
                "after that talk"
            )
            raise RefusedError("room-taken", text, LATER if holder else POLICY)
        if not holder and room.has_text() and time.monotonic() < room.held_until:
            fix = f"stop that talk, choose another name, or wait {self._keep_s / 60:.0f} minutes"
            raise RefusedError("room-held", f"room {room.name!r} has an unfinished talk: {fix}")
        if new or not holder:
            begin_s = text_s if continues and text_s is not None else 0.0
            room.begin(secrets.token_urlsafe(12), keep=not holder, text_s=begin_s)
        room.free.clear()
        return self.enter(room.name, room)

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


def _is(one: str, other: str) -> bool:
    return bool(one) and secrets.compare_digest(one.encode(), other.encode())
