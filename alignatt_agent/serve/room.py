"""Keep and distribute the messages of a room's talks."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Collection, Iterator, Sequence

from alignatt_agent.serve.access import RefusedError
from alignatt_agent.serve.journal import Journal
from alignatt_agent.serve.messages import (
    LINE,
    EarlierTalk,
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


class Room:
    """The messages of one speaker, for current and later viewers.

    The key ``session`` lets a speaker continue the talk from the state ``tail``.
    """

    def __init__(self, name: str, journal: Journal | None = None) -> None:
        self.name = name
        self.viewers = 0
        self.publishers = 0
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
        self._talk = talk
        self.session = session
        for line in lines:
            if isinstance(line, Tail):
                self.tail = line
            elif isinstance(line, Posted):
                self._posted[line.destination] = line.event, line.units
            else:
                # The ids of events are their numbers, so viewers who reconnect find their place.
                self._note(line)
                self._keep(line.model_dump_json())
        self.restored = self._dropped + len(self._texts)
        self._written = written

    def age(self, number: int, audio_s: float) -> float:
        """Return the approximate age of an event from before a restart; 0 for later events."""
        if number > self.restored:
            return 0.0
        before_end_s = self.tail.audio_s - audio_s
        age_s = time.time() - self._written + before_end_s
        return max(0.0, age_s)

    def posted(self, destination: str) -> tuple[int, int]:
        """Return the last event of this talk that was posted, and the number of its units."""
        return self._posted.get(destination, (0, 0))

    def note_posted(self, destination: str, event_id: str, units: int) -> None:
        """Record that the text up to these units of an event was posted."""
        talk, _, digits = event_id.partition(".")
        # Another talk may have begun during a slow request.
        if talk != self._talk:
            return
        number = int(digits)
        self._posted[destination] = number, units
        line = Posted(destination=destination, event=number, units=units)
        self._journal.append(talk, line.model_dump_json())

    async def publish(self, *messages: Message, tail: Tail | None = None) -> list[Message]:
        """Send events to all viewers; keep the events and the new state.

        The journal is written first, so that it contains every event that a viewer has received.
        Returns all messages; the events contain their ids.
        """
        if tail is not None:
            self.tail = tail
        texts: dict[int, str] = {}  # events as JSON, by place in ``messages``
        for place, message in enumerate(messages):
            self._note(message)
            if isinstance(message, Event):
                texts[place] = message.model_dump_json()
        lines = [*texts.values(), self.tail.model_dump_json()]
        published = list(messages)
        try:
            written = self._journal.append(self._talk, *lines)
            if written is not None:
                await asyncio.shield(asyncio.wrap_future(written))
        finally:
            # Even if the speaker disconnects during the wait: the journal has the events.
            for place, text in texts.items():
                event_id = self._keep(text)
                published[place] = messages[place].model_copy(update={"id": event_id})
            self._wake()
        return published

    def _note(self, message: Message) -> None:
        """Record what a message tells about the talk."""
        if isinstance(message, Ready):
            self.targets.update(message.targets)
            # A client that continues a talk may send no title.
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
        if name == self._talk:
            return self.targets, self.messages()
        if name not in self._earlier:
            raise RefusedError("talk", f"this room has no talk {name[:40]!r}", status=404)
        talk, texts = self._earlier[name]
        return talk.targets, map(LINE.validate_json, texts)

    def _put_away(self) -> None:
        """Make the current talk an earlier one; discard the oldest if there are too many."""
        targets = tuple(sorted(self.targets))
        talk = EarlierTalk(talk=self._talk, title=self.title, targets=targets)
        self._earlier[self._talk] = talk, self._texts
        if len(self._earlier) > MAX_EARLIER:
            oldest = next(iter(self._earlier))
            del self._earlier[oldest]
            self._journal.forget(oldest)

    def _keep(self, text: str) -> str:
        """Keep an event and return its id; drop the oldest events if there are too many."""
        self._texts.append(text)
        if len(self._texts) > MAX_EVENTS:
            # Deleting at the beginning of a list takes time, so many are dropped at once.
            count = MAX_EVENTS // 10
            del self._texts[:count]
            self._dropped += count
        return f"{self._talk}.{self._dropped + len(self._texts)}"

    def messages(self, last: int = 0) -> Iterator[Message]:
        """Return all kept messages, or only the ``last`` of them, oldest first."""
        return map(LINE.validate_json, self._texts[-last:])

    def missed(self, since: str) -> Iterator[Message]:
        """Yield the text messages and gaps after the event ``since``, each with its ``id``."""
        begin = max(self._position(since), self._dropped)
        texts = self._texts[begin - self._dropped :]
        for number, text in enumerate(texts, begin + 1):
            message = LINE.validate_json(text)
            if isinstance(message, Said | Gap):
                yield message.model_copy(update={"id": f"{self._talk}.{number}"})

    async def follow(self, since: str = "") -> AsyncIterator[tuple[str, str]]:
        """Yield the events after ``since`` as they occur, until the room is closed.

        An event consists of an id (talk and number, for ``Last-Event-ID``) and a message as JSON.
        """
        talk = self._talk
        position = self._position(since)
        while True:
            # The next event replaces ``_news``, so the wait below does not miss an event that is
            # published while a slow viewer receives the earlier ones.
            news = self._news
            if talk != self._talk:
                talk = self._talk
                position = 0
            position = max(position, self._dropped)
            for text in self._texts[position - self._dropped :]:
                position += 1
                yield f"{talk}.{position}", text
                if talk != self._talk:
                    break
            if talk != self._talk:
                continue
            if self._closed:
                return
            await news.wait()

    def _position(self, since: str) -> int:
        """Return the number of events of this talk up to the event ``since``."""
        talk, _, digits = since.partition(".")
        if talk != self._talk:
            return 0
        # Python refuses to convert very long numbers.
        if not digits.isdecimal() or len(digits) > MOST_DIGITS:
            return 0
        count = self._dropped + len(self._texts)
        return min(int(digits), count)

    def close(self) -> None:
        """Disconnect the viewers after they have received all events."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
