"""WhisperLiveKit's translation protocol, version 1 (``alignatt-mt-server``).

The client recognizes speech itself. It sends ``init``, then ``update`` with the words of the open
utterance: ``words`` are final, and words in ``tail`` may still change. The client receives
``translation`` with the committed text, which never changes.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from alignatt_agent.cascade.stream import Stream
from alignatt_agent.serve.access import RefusedError, public
from alignatt_agent.serve.connection import Connection
from alignatt_agent.serve.messages import Maybe, Message
from alignatt_agent.serve.remote import RemoteStream, run
from alignatt_agent.serve.service import Service
from alignatt_agent.types import EngineError, Word

PATHS = ("/mt",)

MAX_WORDS = 2_000
"""Maximum number of words in ``words`` or ``tail``."""

EarlierSentences = Annotated[tuple[tuple[str, str], ...], Field(max_length=64)]
"""Earlier sentences and their translations, from a client that reconnects."""

Heard = Annotated[tuple[tuple[str, float | None, float | None], ...], Field(max_length=MAX_WORDS)]
"""Words with their start and end times in milliseconds."""


class Init(BaseModel):
    """The first message of a client; its ``overrides`` are ignored."""

    type: Literal["init"]
    protocol_version: Literal[1]
    source_lang: str
    target_lang: str
    preset: str | None = None
    context_text: str | None = Field(default=None, max_length=20_000)
    history: EarlierSentences = ()
    accepted_target_prefix: str = Field(default="", max_length=20_000)


class Tail(BaseModel):
    """Words that may still change."""

    words: Heard = ()


class Update(BaseModel):
    """The open utterance or its end."""

    type: Literal["update"]
    seq: int
    utterance_id: int | str
    words: Heard = ()
    tail: Tail | None = None
    clock_ms: float = 0.0
    is_final: bool = False


class InitOk(Message):
    """The response to ``init``."""

    type: Literal["init_ok"] = "init_ok"
    protocol_version: int = 1
    direction: str
    preset: str
    model: str


class Translation(Message):
    """The response to ``update``: the utterance's text, to which later responses append."""

    type: Literal["translation"] = "translation"
    seq: int
    utterance_id: int | str
    final: bool
    forced_final: bool = False
    committed_text: str
    committed_delta: str
    buffer_text: str = ""
    covered_source_units: int | None


class Failure(Message):
    """The error of an update, or the reason why a session ends."""

    type: Literal["error"] = "error"
    code: str
    message: str
    seq: Maybe[int] = None
    supported: Maybe[tuple[str, ...]] = None


_MESSAGE: TypeAdapter[Init | Update] = TypeAdapter(
    Annotated[Init | Update, Field(discriminator="type")]
)


async def serve(connection: Connection, service: Service) -> None:
    """Serve one client until it disconnects."""
    init = _parse(await connection.receive())
    if not isinstance(init, Init):
        raise RefusedError("bad_protocol", "the first message must be init")
    async with contextlib.AsyncExitStack() as opened:
        opened.enter_context(service.slot())
        connection.speaking = True
        source, (target,) = service.checks.languages(init.source_lang, [init.target_lang])
        if target.code == source.code:
            raise RefusedError(
                "unsupported_direction", "the target and source languages must differ"
            )
        context = await service.checks.context(init.context_text)
        # The history is not checked: it is encoded as plain text and cut to prompt.history_tokens.
        accepted = await service.checks.beginning(init.accepted_target_prefix.strip())
        # Only translation is used, because the client recognizes speech itself.
        stream = await opened.enter_async_context(
            service.engines.open_stream(source, [target], context)
        )
        preset = init.preset or service.engines.resolved.config.policy_for(target.code).name
        direction = f"{source.code}-{target.code}"
        await connection.send(InitOk(direction=direction, preset=preset, model=service.model))
        utterance = _Utterance(stream, target.code, accepted)
        await asyncio.to_thread(utterance.remember, init.history)
        while True:
            update = _parse(await connection.receive())
            if not isinstance(update, Update):
                raise RefusedError("bad_protocol", "expected update, got another init")
            try:
                answer: Message = await asyncio.to_thread(utterance.update, update)
            except EngineError as error:
                text = public(str(error))
                answer = Failure(code="processing_failed", message=text, seq=update.seq)
            await connection.send(answer)


async def refuse(connection: Connection, service: Service, error: RefusedError) -> None:
    """Send the error in the format of the protocol."""
    failure = Failure(code=error.code, message=str(error))
    if error.code == "language":
        *targets, source = service.checks.targets()
        directions = [f"{source}-{target}" for target in targets]
        failure = Failure(
            code="unsupported_direction", message=str(error), supported=tuple(directions)
        )
    await connection.send(failure)


@dataclass
class _Utterance:
    """The open utterance and its translation so far."""

    stream: Stream | RemoteStream
    code: str
    text: str

    def remember(self, history: Sequence[tuple[str, str]]) -> None:
        """Continue after earlier sentences and the beginning of this utterance's translation."""
        # A replica executes the function on another machine, so it must not refer to ``self``.
        code = self.code
        accepted = self.text
        run(self.stream, lambda stream: stream.targets[code].remember(history, accepted))

    def update(self, update: Update) -> Translation:
        """Translate the words of a message and return the response."""
        words = _words(update.words, update.clock_ms)
        accessible: int | None = len(words)
        if update.is_final:
            accessible = None
        elif update.tail:
            words += _words(update.tail.words, update.clock_ms)
        code = self.code
        emission, gated = run(
            self.stream, lambda stream: stream.targets[code].translate(words, accessible)
        )
        delta = "".join(emission.units)
        self.text += delta
        covered_words = None
        if gated and gated.words[: gated.emitted]:
            covered_words = 1 + max(gated.words[: gated.emitted])
        translation = Translation(
            seq=update.seq,
            utterance_id=update.utterance_id,
            final=update.is_final,
            committed_text=self.text.strip(),
            committed_delta=delta,
            covered_source_units=covered_words,
        )
        if update.is_final:
            self.text = ""
        return translation


def _words(heard: Heard, clock_ms: float) -> tuple[Word, ...]:
    """Return the words of a message, with times in seconds; ``clock_ms`` replaces unknown times."""
    words = []
    for text, start_ms, end_ms in heard:
        if start_ms is None:
            start_ms = clock_ms
        # An end of 0 is unknown, too.
        end_ms = end_ms or clock_ms
        # The parts of a text with spaces are words with the same times.
        words += [Word(part, start_ms / 1000, end_ms / 1000) for part in text.split()]
    return tuple(words)


def _parse(message: bytes | dict[str, Any]) -> Init | Update:
    if isinstance(message, bytes):
        raise RefusedError("bad_protocol", "expected JSON, got binary data")
    try:
        return _MESSAGE.validate_python(message)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise RefusedError("bad_protocol", f"{where or 'message'}: {first['msg']}") from None
