"""What all connections of a server share: engines, rooms, limits, and the stop."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal

from pydantic import Field

from alignatt_agent.cascade.contexts import check_contexts
from alignatt_agent.config.errors import Strict
from alignatt_agent.config.languages import Language, LanguageError, language
from alignatt_agent.serve import messages
from alignatt_agent.serve.access import GOING, LATER, Limits, RefusedError, public
from alignatt_agent.serve.engines import EnginePool
from alignatt_agent.serve.journal import PROTOCOL, Journal
from alignatt_agent.serve.metrics import Metrics
from alignatt_agent.serve.rooms import Message, Room, Rooms, check_name, nothing
from alignatt_agent.serve.stream import SpeakerStream
from alignatt_agent.serve.tail import after, resume, text_of
from alignatt_agent.types import SAMPLE_RATE, AlignAttError, EngineError
from alignatt_agent.types.audio import Resampler

STOP_S = 10.0
"""Time for streams to translate their last words when the server stops."""

SWEEP_S = 0.2
"""How often dead engines and empty rooms are looked for."""

LOWEST, HIGHEST = 8_000, 192_000
"""Sampling rates that clients may send, in Hz."""


class TalkRequest(Strict):
    """What a speaker asks for: our message ``start``, and what the other wires make of theirs.

    Attributes:
        targets: languages to translate into; the spoken one gives captions of the speech.
        source: the spoken language, code or name; ``None`` for the configured one.
        sample_rate: of the audio, in Hz.
        detail: which messages the client gets.
        room: its name; ``None`` for an unguessable one.
        session: of a talk to resume.
        new: begin a new talk in the room of that one.
        kept_s: time of that talk from which on the client has its audio, and sends it again.
        since: ``id`` of the last message of that talk that the client has.
        live: take waiting audio in longer steps.
        context: names and terms of the talk; ``None`` for the configured ones.
        title: of the talk, for viewers.
    """

    type: Literal["start"] = "start"
    targets: tuple[str, ...] = Field(max_length=16)
    source: str | None = None
    sample_rate: int | float = SAMPLE_RATE
    detail: messages.Detail = "text"
    room: str | None = None
    session: str | None = None
    new: bool = False
    kept_s: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    since: str | None = None
    live: bool = True
    context: str | None = Field(default=None, max_length=20_000)
    title: str = Field(default="", max_length=200)


@dataclass(frozen=True, slots=True)
class OpenTalk:
    """A stream, its room and the first message to its speaker."""

    stream: SpeakerStream
    room: Room
    targets: tuple[Language, ...]
    ready: Message


class Service:
    """What the connections of a server share.

    Attributes:
        rooms: with the text of each.
        closing: set when the server stops: streams end.
        viewers: their number.
        metrics: for Prometheus.
        model: name of the translation model for clients.
    """

    def __init__(self, engines: EnginePool, limits: Limits) -> None:
        self.engines = engines
        self.limits = limits
        self.model = public(engines.resolved.config.models.translation.path)
        self.rooms = Rooms(limits.keep_s, journal=Journal(limits.journal))
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
        """Count a speaker, or raise ``RefusedError`` if there are too many or the server stops."""
        if self.closing.is_set():
            raise RefusedError("closing", "the server stops", GOING)
        if self._speakers >= self.limits.max_speakers:
            for room in filter(attrgetter("lost"), self.rooms):  # their places are free next time
                room.end_wait()
            message = f"{self._speakers} speakers are being translated: try again later"
            raise RefusedError("busy", message, LATER)
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
        self, request: TalkRequest, deliver: Callable[[list[Message]], Awaitable[None]]
    ) -> AsyncIterator[OpenTalk]:
        """Open a stream for a speaker, whom ``deliver`` tells; it ends with the context.

        Raises:
            RefusedError: the request cannot be granted; the message says why.
        """
        await self.rooms.recall(request.session, None if request.new else request.kept_s)
        async with contextlib.AsyncExitStack() as opened:
            opened.enter_context(self.slot())
            source, targets = self.languages(request.source, request.targets)
            resampler = Resampler(sampling_rate(request.sample_rate))
            context = await self.context(request.context, request.room or "")
            stream: SpeakerStream | None = None

            def failed(error: EngineError) -> None:
                if stream is not None:  # until then calls of the talk fail
                    stream.fail(error)

            talk = await opened.enter_async_context(
                self.engines.open_stream(source, targets, context, failed)
            )
            room = self.rooms.take(request.room, request.session, request.new)
            opened.callback(self.rooms.free, room)
            tail, lost = await resume(talk, room.tail, request.kept_s)

            async def everybody(found: list[Message]) -> None:
                told = [message for message in found if messages.for_viewers(message)]
                for message, number in zip(
                    told, room.publish(*told, tail=after(room.tail, found)), strict=True
                ):
                    message["id"] = number
                self.metrics.step(found[-1], request.live)  # its status
                await deliver(found)

            config = self.engines.resolved.config
            stream = SpeakerStream(
                stream=talk,
                engines=self.engines,
                resampler=resampler,
                chunk_ms=config.chunk_ms,
                live=request.live,
                offset_s=tail["start_s"],
                said={code: text_of(units) for code, units in tail["said"].items()},
                deliver=everybody,
                threads=self._threads,
                arrivals=room.arrivals,
            )
            policies = dict.fromkeys(config.policy_for(item.code).name for item in targets)
            ready = {
                "type": "ready",
                "protocol": PROTOCOL,
                "room": room.name,
                "title": request.title,
                "resumed": request.session is not None and not request.new,
                "audio_s": tail["start_s"],
                "source": source.code,
                "targets": [target.code for target in targets],
                "languages": [_describe(target.code) for target in targets],
                "chunk_ms": config.chunk_ms,
                "policy": ", ".join(policies),
                "model": self.model,
            }
            room.publish(ready, *lost, tail=tail)
            try:
                yield OpenTalk(stream, room, targets, ready | {"session": room.session})
            finally:
                if stream.finished:
                    room.publish(tail=nothing(stream.audio_s))

    def languages(
        self, source: str | None, targets: Sequence[str]
    ) -> tuple[Language, tuple[Language, ...]]:
        """Return the languages of a request; ``RefusedError`` if one is not served here."""
        spoken = language(self.engines.resolved.config.source_language)
        try:
            given = spoken if source is None else language(source)
            wanted = tuple({item.code: item for item in map(language, targets)}.values())
        except LanguageError as error:
            raise RefusedError("language", str(error)) from None
        if given != spoken:
            raise RefusedError(
                "language", f"this server translates {spoken.name}, not {given.name}"
            )
        known = self.targets()
        wrong = [item.name for item in wanted if item.code not in known]
        if wrong or not wanted:
            asked = f"cannot translate into {', '.join(wrong)}" if wrong else "no target language"
            raise RefusedError("language", f"{asked}; this server has: {', '.join(known)}")
        return spoken, wanted

    def targets(self) -> list[str]:
        """Return the codes of the targets of this server, the spoken language last."""
        resolved = self.engines.resolved
        return list(dict.fromkeys([*resolved.head_sets, resolved.config.source_language]))

    async def context(self, given: str | None, talk: str = "", *others: str) -> str:
        """Return the names and terms of a talk: the client's, checked with ``others``, or ours."""
        resolved = self.engines.resolved
        if given is None:
            return resolved.config.speech.context_of(talk)
        try:
            await asyncio.to_thread(check_contexts, resolved, contexts=[given, *others])
        except AlignAttError as error:
            raise RefusedError("context", str(error)) from None
        return given

    # ------------------------------------------------------------------ viewers
    def admit(self, name: str) -> None:
        """Refuse a viewer beyond the limit, or of a room that cannot exist."""
        check_name(name)
        if self.viewers >= self.limits.max_viewers:
            raise RefusedError("busy", f"{self.viewers} viewers are here: try again later", LATER)

    @contextlib.contextmanager
    def viewer(self, name: str) -> Iterator[Room]:
        """Count a viewer of a room, which may be new."""
        room = self.rooms.enter(name)
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
        """Return the state of the server; dead engines are restarted."""
        self.engines.restart_dead()
        resolved = self.engines.resolved
        return {
            "status": "ok" if self.engines.healthy() else self.engines.state,
            "error": self.engines.error and public(self.engines.error),
            "source": resolved.config.source_language,
            "targets": [_describe(code) for code in self.targets()],
            "model": self.model,
            "chunk_ms": resolved.config.chunk_ms,
            "speakers": self._speakers,
            "max_speakers": self.limits.max_speakers,
            "viewers": self.viewers,
            "max_viewers": self.limits.max_viewers,
            **self.engines.describe(),
        }

    async def watch(self) -> None:
        """Forget old rooms and restart dead engines, until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_S)
            self.rooms.sweep()
            self.engines.restart_dead()

    async def drain(self) -> None:
        """End all streams, translate their last words, disconnect the viewers; may be repeated."""
        self.closing.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_S):
                await self._idle.wait()
        for room in self.rooms:
            room.close()
        self.engines.stop()
        self._threads.shutdown(wait=False, cancel_futures=True)


def sampling_rate(rate: object) -> int:
    """Return the sampling rate that a client names, in Hz; ``RefusedError`` if it is none."""
    if isinstance(rate, bool) or not isinstance(rate, int | float):
        raise RefusedError("sample-rate", f"sample_rate has to be a number of Hz, got {rate!r}")
    if not LOWEST <= rate <= HIGHEST or rate != int(rate):
        expected = f"{LOWEST} to {HIGHEST} Hz"
        raise RefusedError("sample-rate", f"sample_rate has to be {expected}, got {rate!r}")
    return int(rate)


def _describe(code: str) -> dict[str, Any]:
    known = language(code)
    return {"code": code, "name": known.name, "spaced": known.spaced, "rtl": known.rtl}
