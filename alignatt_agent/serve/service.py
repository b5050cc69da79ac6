"""Manage the state that all connections of a server share: engines, rooms, and limits."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from alignatt_agent.audio.resampler import Resampler
from alignatt_agent.cascade.contexts import check_beginning, check_contexts
from alignatt_agent.cascade.stream import Stream
from alignatt_agent.config.languages import Language, LanguageError, language
from alignatt_agent.serve.access import GOING, LATER, Limits, RefusedError, public
from alignatt_agent.serve.engines import EnginePool
from alignatt_agent.serve.journal import Journal
from alignatt_agent.serve.messages import (
    Error,
    Gap,
    Heard,
    Message,
    Ready,
    Said,
    Start,
    Status,
    StepError,
    Tail,
    TargetLanguage,
    text_of,
)
from alignatt_agent.serve.metrics import Metrics
from alignatt_agent.serve.remote import RemoteStream, run
from alignatt_agent.serve.rooms import Room, Rooms, check_name
from alignatt_agent.serve.speaker import SpeakerStream
from alignatt_agent.types import AlignAttError

STOP_S = 10.0
"""Seconds for streams to translate their last words when the server stops."""

SWEEP_S = 0.2
"""Seconds between checks for dead engines and empty rooms."""

ONSET_S = 0.3
"""Seconds of audio to recognize again before the first open word, at most half of the pause."""

SILENT_S = 5.0
"""Maximum number of seconds of audio to recognize again if it contains no words."""

LOWEST, HIGHEST = 8_000, 192_000
"""Lowest and highest sampling rates that clients may use, in Hz."""


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
        self.viewers = self._speakers = 0
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
            for room in filter(attrgetter("lost"), self.rooms):  # free slots for the next attempt
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
        await self.rooms.recall(request.session, None if request.new else request.kept_s)
        async with contextlib.AsyncExitStack() as opened:
            opened.enter_context(self.slot())
            source, targets = self.languages(request.source, request.targets)
            resampler = Resampler(sampling_rate(request.sample_rate))
            context = await self.context(request.context, request.room or "")
            talk = await opened.enter_async_context(
                self.engines.open_stream(source, targets, context)
            )
            room = self.rooms.take(request.room, request.session, request.new, request.text_s)
            opened.callback(self.rooms.free, room)
            tail, lost = await _resume(talk, room.tail, request.kept_s)

            async def everybody(found: list[Message]) -> None:
                found = await room.publish(*found, tail=_after(room.tail, found))
                status = next(one for one in found if isinstance(one, Status))
                self.metrics.step(status, request.live)
                more = {"viewers": room.viewers, "problems": self._problems(room) or None}
                await deliver(
                    [one.model_copy(update=more) if one is status else one for one in found]
                )

            config = self.engines.resolved.config
            stream = SpeakerStream(
                stream=talk,
                engines=self.engines,
                resampler=resampler,
                chunk_ms=config.chunk_ms,
                live=request.live,
                offset_s=tail.start_s,
                said={code: text_of(units) for code, units in tail.said.items()},
                deliver=everybody,
                threads=self._threads,
            )
            if isinstance(talk, RemoteStream):
                talk.failed = stream.fail
            policies = dict.fromkeys(config.policy_for(item.code).name for item in targets)
            ready = Ready(
                room=room.name,
                title=request.title,
                resumed=request.session is not None and not request.new,
                audio_s=tail.start_s,
                source=source.code,
                targets=[target.code for target in targets],
                languages=[TargetLanguage.of(target) for target in targets],
                chunk_ms=config.chunk_ms,
                policy=", ".join(policies),
                model=self.model,
                text_s=room.text_s or None,
                earlier=room.earlier() or None,
            )
            await room.publish(ready, *lost, tail=tail)
            try:
                yield OpenTalk(stream, room, ready.model_copy(update={"session": room.session}))
            finally:
                if stream.finished:
                    await room.publish(tail=Tail.at(stream.audio_s))

    def _problems(self, room: Room) -> tuple[str, ...]:
        """Return the faults that do not stop the talk in a room."""
        problems = list(room.problems.values())
        if self.limits.journal is not None and not room.stored():
            problems.append("The server cannot store this talk (see its log); save the text.")
        return tuple(problems)

    def languages(
        self, source: str | None, targets: Sequence[str]
    ) -> tuple[Language, tuple[Language, ...]]:
        """Return the languages of a request; reject languages that this server cannot translate."""
        spoken = language(self.engines.resolved.config.source_language)
        try:
            given = spoken if source is None else language(source)
            wanted = tuple({item.code: item for item in map(language, targets)}.values())
        except LanguageError as error:
            raise RefusedError("language", str(error)) from None
        if given != spoken:
            raise RefusedError(
                "language", f"this server translates from {spoken.name}, not {given.name}"
            )
        known = self.targets()
        wrong = [item.name for item in wanted if item.code not in known]
        if wrong or not wanted:
            asked = f"cannot translate into {', '.join(wrong)}" if wrong else "no target language"
            raise RefusedError("language", f"{asked}; expected {', '.join(known)}")
        return spoken, wanted

    def targets(self) -> list[str]:
        """Return the codes of this server's targets, with the spoken language last."""
        resolved = self.engines.resolved
        return list(dict.fromkeys([*resolved.head_sets, resolved.config.source_language]))

    def target_code(self, tag: str) -> str:
        """Return the code of the language that a viewer asks for in any form, e.g. ``de_DE``.

        Raises:
            RefusedError: the language is unknown.
        """
        try:
            return language(tag).code
        except LanguageError:
            expected = ", ".join(self.targets())
            text = f"unknown language {tag[:20]!r}; expected one of {expected}"
            raise RefusedError("language", text, status=404) from None

    async def context(self, given: str | None, talk: str = "") -> str:
        """Return the client's names and terms after checking them, or the configured ones."""
        resolved = self.engines.resolved
        if given is None:
            return resolved.config.speech.context_of(talk)
        try:
            await asyncio.to_thread(check_contexts, resolved, contexts=[given])
        except AlignAttError as error:
            raise RefusedError("context", str(error)) from None
        return given

    async def beginning(self, text: str) -> str:
        """Return the client's translation of the open sentence after checking its length."""
        try:
            await asyncio.to_thread(check_beginning, self.engines.resolved, text)
        except AlignAttError as error:
            raise RefusedError("context", str(error)) from None
        return text

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
        resolved = self.engines.resolved
        return {
            "status": "ok" if self.engines.healthy() else "starting",
            "error": self.engines.error and public(self.engines.error),
            "source": resolved.config.source_language,
            "targets": [TargetLanguage.of(language(code)).model_dump() for code in self.targets()],
            "model": self.model,
            "chunk_ms": resolved.config.chunk_ms,
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
    plural = "" if limit == 1 else "s"
    return RefusedError("busy", f"limit of {limit} {kind}{plural} reached: try again later", LATER)


def sampling_rate(rate: object) -> int:
    """Return a client's sampling rate in Hz; reject an invalid rate."""
    if isinstance(rate, bool) or not isinstance(rate, int | float):
        raise RefusedError("sample-rate", f"sample_rate must be a number in Hz, got {rate!r}")
    if not LOWEST <= rate <= HIGHEST or rate != int(rate):
        expected = f"a whole number from {LOWEST} to {HIGHEST} Hz"
        raise RefusedError("sample-rate", f"sample_rate must be {expected}, got {rate!r}")
    return int(rate)


async def _resume(
    talk: Stream | RemoteStream, tail: Tail, kept_s: float | None
) -> tuple[Tail, list[Gap]]:
    """Continue an open sentence in a new stream if the client kept its audio (from ``kept_s`` on).

    Returns the initial state of the stream and the gap, if any.
    """
    start_s, begin_s = tail.start_s, max(tail.audio_s, kept_s or 0.0)
    if kept_s is None or kept_s > start_s:
        gap = Gap(start=round(start_s, 2), end=round(begin_s, 2))
        return Tail.at(begin_s), [gap] if begin_s > start_s else []

    def remember(stream: Stream) -> None:
        for code in tail.said.keys() & stream.targets.keys():
            stream.targets[code].remember((), text_of(tail.said[code]).strip())

    await asyncio.to_thread(run, talk, remember)
    return tail, []


def _after(tail: Tail, found: Sequence[Message]) -> Tail:
    """Return the state after the messages of a step.

    A failed step closes no sentence, because the next step translates its sentences again.
    """
    failed = any(isinstance(message, Error | StepError) for message in found)
    audio_s, start_s, closed_s = tail.audio_s, tail.start_s, tail.closed_s
    said = dict(tail.said)
    for message in found:
        audio_s = getattr(message, "audio_s", audio_s)
        if isinstance(message, Said):
            said[message.target] = (*said.get(message.target, ()), *message.units)
        if isinstance(message, Heard):
            closed_s = max([closed_s, *(sentence[-1].end for sentence in message.closed)])
            begin_s = max(start_s, min(closed_s + 0.1, audio_s), audio_s - SILENT_S)
            if message.words:
                first = message.words[0][1]
                begin_s = max((closed_s + first) / 2, first - ONSET_S)
            start_s = start_s if failed else begin_s
    for code, units in said.items():
        said[code] = tuple(unit for unit in units if unit.start + unit.end >= 2 * start_s)
    return Tail(audio_s=audio_s, start_s=start_s, closed_s=closed_s, said=said)
