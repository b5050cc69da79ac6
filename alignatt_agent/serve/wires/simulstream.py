"""Simulstream's protocol, for its unmodified clients, on the paths of ``own``.

Text messages set ``sample_rate``, ``source_lang``, and ``target_lang`` for the audio that follows.
Binary messages are 16-bit little-endian mono audio. ``end_of_stream`` ends a stream, and another
stream may follow. After every step of exactly ``chunk_ms``, the server sends the new text. It
ignores ``metrics_metadata``. For scores, use Simulstream's own server, which writes the log.
"""

from typing import Any

from alignatt_agent.serve.connection import Connection
from alignatt_agent.serve.messages import Message, Said, Start, text_of
from alignatt_agent.serve.request_checks import sampling_rate
from alignatt_agent.serve.service import Service
from alignatt_agent.serve.speaker import SpeakerStream
from alignatt_agent.types import SAMPLE_RATE

DONE = {"end_of_processing": True}


async def serve(connection: Connection, service: Service, first: bytes | dict[str, Any]) -> None:
    """Serve successive streams until the client disconnects."""
    settings: dict[str, Any] = {}
    message = first
    while True:
        if isinstance(message, bytes):
            await _stream(connection, service, settings, message)
            settings = {}
        elif "end_of_stream" in message:
            await connection.send(DONE)
        else:
            known = ("sample_rate", "source_lang", "target_lang")
            settings |= {key: message[key] for key in known if key in message}
        message = await connection.receive()


async def _stream(
    connection: Connection, service: Service, settings: dict[str, Any], first: bytes
) -> None:
    target = settings.get("target_lang") or service.engines.resolved.config.target_language
    source = settings.get("source_lang")
    request = Start(
        source=None if source is None else str(source),
        targets=() if target is None else (str(target),),
        sample_rate=sampling_rate(settings.get("sample_rate", SAMPLE_RATE)),
        live=False,
    )

    async def deliver(found: list[Message]) -> None:
        new = "".join(text_of(item.units) for item in found if isinstance(item, Said))
        await connection.send({"new": new, "deleted": ""})

    async with service.speech(request, deliver) as speech:
        await connection.run_stream(speech.stream, _listen(connection, speech.stream, first))
    await connection.send(DONE)


async def _listen(connection: Connection, stream: SpeakerStream, first: bytes) -> None:
    message: bytes | dict[str, Any] = first
    while isinstance(message, bytes) or "end_of_stream" not in message:
        if isinstance(message, bytes):
            await stream.feed(message)
        message = await connection.receive()
