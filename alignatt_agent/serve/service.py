"""Manage the state that all connections of a server share: engines, rooms, and limits."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from alignatt_agent.audio.resampler import Resampler
from alignatt_agent.config.languages import Language, language
from alignatt_agent.serve.access import GOING, LATER, Limits, RefusedError, public
from alignatt_agent.serve.engines import EnginePool
from alignatt_agent.serve.journal import Journal
from alignatt_agent.serve.messages import (
    Message,
    Ready,
    Start,
    Status,
    Tail,
    TargetLanguage,
    text_of,
)
from alignatt_agent.serve.metrics import Metrics
from alignatt_agent.serve.remote import RemoteStream
from alignatt_agent.serve.request_checks import RequestChecks, sampling_rate
from alignatt_agent.serve.resuming import resume, state_after
from alignatt_agent.serve.room import Room
from alignatt_agent.serve.room_access import Rooms, check_name
from alignatt_agent.serve.speaker_stream import SpeakerStream

STOP_S = 10.0
"""Seconds for streams to translate their last words when the server stops."""

SWEEP_S = 0.2
"""Seconds between checks for dead engines and empty rooms."""


@dataclass(frozen=True, slots=True)
class OpenTalk:
    """A stream, its room, and the first message to its speaker."""

    stream: SpeakerStream
    room: Room
    ready: Ready


class Service:
    """State that all connections of a server share; streams end when ``closing`` is set."""

    def __init__(self, engines: EnginePool, limits: Limits) -> None:
        self.engines = engines
        self.limits = limits
        self.model = public(engines.resolved.config.models.translation.path)
        self.rooms = Rooms(limits.keep_s, Journal(limits.journal))
        self.closing = asyncio.Event()
        self.checks = RequestChecks(engines)
        self.viewers = 0
        self._speakers = 0
        self.metrics = Metrics(
            speakers=lambda: self._speakers,
            viewers=lambda: self.viewers,
            restarts=lambda: engines.restarts,
        )
        self._threads = ThreadPoolExecutor(limits.max_speakers, "step")
        self._idle = asyncio.Event()
        self._idle.set()

    # ------------------------------------------------------------------ speakers
    @contextlib.contextmanager
    def slot(self) -> Iterator[None]:
        """Count a speaker; reject the speaker if no slot is free or the server is stopping."""
        if self.closing.is_set():
            raise RefusedError("closing", "the server is shutting down", GOING)
        if self._speakers >= self.limits.max_speakers:
            # Speakers who lost their connection free their slots for the client's next attempt.
            for room in self.rooms:
                if room.lost:
                    room.end_wait()
            raise _full("speaker", self._speakers)
        self._speakers += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._speakers -= 1
            if not self._speakers:
                self._idle.set()

    @contextlib.asynccontextmanager
    async def speech(
        self, request: Start, deliver: Callable[[list[Message]], Awaitable[None]]
    ) -> AsyncIterator[OpenTalk]:
        """Open a stream for a speaker, and ``deliver`` its messages until the context ends.

        Raises:
            RefusedError: the request cannot be accepted; the error message states the reason.
        """
        # For a new talk, a client does not resend the audio of the old one.
        kept_s = None if request.new else request.kept_s
        await self.rooms.recall(request.session, kept_s)
        async with contextlib.AsyncExitStack() as opened:
            opened.enter_context(self.slot())
            source, targets = self.checks.languages(request.source, request.targets)
            resampler = Resampler(sampling_rate(request.sample_rate))
            context = await self.checks.context(request.context, request.room or "")
            talk = await opened.enter_async_context(
                self.engines.open_stream(source, targets, context)
            )
            # The room is reserved last, so that no rejected request ends its talk.
            room = self.rooms.take(request.room, request.session, request.new, request.text_s)
            opened.callback(self.rooms.free, room)
            tail, gaps = await resume(talk, room.tail, request.kept_s)
            stream = SpeakerStream(
                stream=talk,
                engines=self.engines,
                resampler=resampler,
                chunk_ms=self.engines.resolved.config.chunk_ms,
                live=request.live,
                offset_s=tail.start_s,
                said={code: text_of(units) for code, units in tail.said.items()},
                deliver=partial(self._publish, room, request.live, deliver),
                threads=self._threads,
            )
            if isinstance(talk, RemoteStream):
                talk.failed = stream.fail
            ready = self._ready(request, room, source, targets, tail.start_s)
            await room.publish(ready, *gaps, tail=tail)
            try:
                # Viewers do not receive the key of the talk.
                yield OpenTalk(stream, room, ready.model_copy(update={"session": room.session}))
            finally:
                if stream.finished:
                    await room.publish(tail=Tail.at(stream.audio_s))

    async def _publish(
        self,
        room: Room,
        live: bool,
        deliver: Callable[[list[Message]], Awaitable[None]],
        messages: list[Message],
    ) -> None:
        """Publish the messages of a step in a room, then ``deliver`` them to its speaker."""
        published = await room.publish(*messages, tail=state_after(room.tail, messages))
        speaker_messages = []
        for message in published:
            if isinstance(message, Status):
                self.metrics.step(message, live)
                details = {"viewers": room.viewers, "problems": self._problems(room) or None}
                message = message.model_copy(update=details)
            speaker_messages.append(message)
        await deliver(speaker_messages)

    def _ready(
        self,
        request: Start,
        room: Room,
        source: Language,
        targets: Sequence[Language],
        audio_s: float,
    ) -> Ready:
        """Return the first message of a talk that begins or continues at ``audio_s``."""
        config = self.engines.resolved.config
        policies = dict.fromkeys([config.policy_for(target.code).name for target in targets])
        return Ready(
            room=room.name,
            title=request.title,
            resumed=request.session is not None and not request.new,
            audio_s=audio_s,
            source=source.code,
            targets=[target.code for target in targets],
            languages=[TargetLanguage.of(target) for target in targets],
            chunk_ms=config.chunk_ms,
            policy=", ".join(policies),
            model=self.model,
            text_s=room.text_s or None,
            earlier=room.earlier() or None,
        )

    def _problems(self, room: Room) -> tuple[str, ...]:
        """Return the faults that do not stop the talk in a room."""
        problems = list(room.problems.values())
        if self.limits.journal is not None and not room.stored():
            problems.append("The server cannot store this talk (see its log); save the text.")
        return tuple(problems)

    # ------------------------------------------------------------------ viewers
    def admit(self, name: str) -> str:
        """Return the name of a room in composed form.

        Raises:
            RefusedError: there are too many viewers, or the name is invalid.
        """
        name = check_name(name)
        if self.viewers >= self.limits.max_viewers:
            raise _full("viewer", self.viewers)
        return name

    @contextlib.contextmanager
    def publisher(self, name: str) -> Iterator[Room]:
        """Keep a room for a publisher of its captions, who is not counted as a viewer."""
        room = self.rooms.enter(check_name(name))
        room.publishers += 1
        try:
            yield room
        finally:
            room.publishers -= 1
            self.rooms.leave(room)

    @contextlib.contextmanager
    def viewer(self, name: str) -> Iterator[Room]:
        """Count a viewer of a room, creating the room if necessary."""
        room = self.rooms.enter(check_name(name))
        self.viewers += 1
        room.viewers += 1
        try:
            yield room
        finally:
            self.viewers -= 1
            room.viewers -= 1
            self.rooms.leave(room)

    # ------------------------------------------------------------------ the server
    def health(self) -> dict[str, Any]:
        """Return the state of the server for ``/health``."""
        config = self.engines.resolved.config
        status = "starting"
        if self.engines.healthy():
            status = "ok"
        error = self.engines.error
        # Viewers may read the state, but not the paths of this machine.
        if error is not None:
            error = public(error)
        targets = []
        for code in self.checks.targets():
            target = TargetLanguage.of(language(code))
            targets.append(target.model_dump())
        return {
            "status": status,
            "error": error,
            "source": config.source_language,
            "targets": targets,
            "model": self.model,
            "chunk_ms": config.chunk_ms,
            "speakers": self._speakers,
            "max_speakers": self.limits.max_speakers,
            "viewers": self.viewers,
            "max_viewers": self.limits.max_viewers,
            **self.engines.describe(),
        }

    async def watch(self) -> None:
        """Discard old rooms and restart dead engines until canceled."""
        while True:
            await asyncio.sleep(SWEEP_S)
            self.rooms.sweep()
            self.engines.restart_dead()

    async def drain(self) -> None:
        """End all streams and disconnect the viewers; idempotent.

        The last words are translated, unless the journal has the talk, which then continues later.
        """
        self.closing.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_S):
                await self._idle.wait()
        await self.rooms.close()
        self.engines.stop()
        self._threads.shutdown(wait=False, cancel_futures=True)


def _full(kind: str, limit: int) -> RefusedError:
    counted = f"{limit} {kind}s"
    if limit == 1:
        counted = f"1 {kind}"
    return RefusedError("busy", f"limit of {counted} reached: try again later", LATER)
