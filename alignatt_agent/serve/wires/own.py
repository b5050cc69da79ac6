"""The server's own protocol.

A client sends ``start``, then audio as binary messages (16-bit little-endian mono), then ``stop``.
It receives ``ready``, the ``messages`` of every step, and ``end``. If the talk fails, the client
receives ``error`` and a close code with the reason. After a stop or a lost connection, a speaker
can continue the talk with the ``session`` from ``ready``. The server first sends the text after the
``id`` in ``since``. A client that kept audio (from ``kept_s`` on) resends it from ``audio_s`` on.
After a restart without a journal, the talk continues at ``text_s`` in ``room``.
"""

import asyncio
from typing import Any

from pydantic import ValidationError
from starlette.websockets import WebSocketDisconnect

from alignatt_agent.config.errors import explain
from alignatt_agent.serve.access import RefusedError
from alignatt_agent.serve.connection import Connection
from alignatt_agent.serve.messages import LEFT_OUT, SPEAKER_LOST, End, Message, Start, refusal
from alignatt_agent.serve.service import OpenTalk, Service
from alignatt_agent.serve.wires import simulstream

PATHS = ("/", "/ws")
"""Simulstream's client connects to the first path."""

ELSEWHERE = "elsewhere"
"""Error code for the old connection of a speaker who has reconnected."""

RETURN_S = 10.0
"""Seconds for a speaker to reconnect, after which the open sentence is translated to its end."""


async def serve(connection: Connection, service: Service) -> None:
    """Serve a client of this protocol or, if the first message has no ``type``, of Simulstream."""
    first = await connection.receive()
    if isinstance(first, bytes) or "type" not in first:
        await simulstream.serve(connection, service, first)
    else:
        await _serve(connection, service, _parse(first))


async def refuse(connection: Connection, service: Service, error: RefusedError) -> None:
    """Send the error as the last message."""
    await connection.send(refusal(error))


async def _serve(connection: Connection, service: Service, request: Start) -> None:
    left_out = LEFT_OUT[request.detail]

    async def deliver(messages: list[Message]) -> None:
        for message in messages:
            if not isinstance(message, left_out):
                await connection.send(message)

    async with service.speech(request, deliver) as speech:
        await connection.send(speech.ready)
        if request.since is not None:
            for message in speech.room.missed(request.since):
                await connection.send(message)
        try:
            listening = _listen(connection, speech)
            await connection.run_stream(speech.stream, listening, speech.room.stored)
        except RefusedError as error:
            last_message = refusal(error)
            # For viewers, the talk has not ended, but waits for the new connection.
            if error.code == ELSEWHERE:
                last_message = SPEAKER_LOST
            await speech.room.publish(last_message)
            raise
        except WebSocketDisconnect:
            await speech.room.publish(SPEAKER_LOST)
            raise
        end = End(audio_s=round(speech.stream.audio_s, 2))
        await speech.room.publish(end)
    await connection.send(end)


async def _listen(connection: Connection, speech: OpenTalk) -> None:
    """Feed the stream; if the open sentence is resent, leave it to the next stream."""
    room = speech.room
    back: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    room.back = back
    feeding = asyncio.ensure_future(_feed(connection, speech))
    try:
        await asyncio.wait({feeding, back}, return_when=asyncio.FIRST_COMPLETED)
        lost: Exception = RefusedError(ELSEWHERE, "the talk continues on another connection")
        if feeding.done():
            try:
                return feeding.result()
            except WebSocketDisconnect as error:
                lost = error
                room.lost = True
                await room.publish(SPEAKER_LOST)
                # During this time, the sentence stays open.
                await asyncio.wait({back}, timeout=RETURN_S)
        # The new stream hears the audio of the sentence again, so this one must not translate it.
        if back.done() and back.result():
            speech.stream.fail(lost)
        raise lost
    finally:
        feeding.cancel()


async def _feed(connection: Connection, speech: OpenTalk) -> None:
    while True:
        message = await connection.receive()
        if isinstance(message, bytes):
            await speech.stream.feed(message)
        elif message.get("type") == "stop":
            return
        else:
            kind = str(message.get("type"))[:40]
            raise RefusedError("message", f"expected audio or a message of type stop, got {kind!r}")


def _parse(message: dict[str, Any]) -> Start:
    try:
        return Start.model_validate(message)
    except ValidationError as error:
        # A message can be wrong in thousands of places.
        problems = [explain(Start, dict(problem))[:200] for problem in error.errors()[:3]]
        text = f"the start message is invalid: {'; '.join(problems)}"
        raise RefusedError("start", text) from None
