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
from alignatt_agent.serve.speaker_stream import SpeakerStream
from alignatt_agent.types import SAMPLE_RATE

DONE = {"end_of_processing": True}
"""Message at the end of a stream."""

SETTINGS = ("sample_rate", "source_lang", "target_lang")
"""Settings of a stream; a client may send each in a message of its own."""


async def serve(connection: Connection, service: Service, first: bytes | dict[str, Any]) -> None:
    """Serve successive streams until the client disconnects."""
    settings: dict[str, Any] = {}
    message = first
    while True:
        if isinstance(message, bytes):
            await _stream(connection, service, settings, message)
            # The next stream begins with the defaults.
            settings = {}
        elif "end_of_stream" in message:
            await connection.send(DONE)
        else:
            for key in SETTINGS:
                if key in message:
                    settings[key] = message[key]
        message = await connection.receive()


async def _stream(
    connection: Connection, service: Service, settings: dict[str, Any], first: bytes
) -> None:
    request = _request(service, settings)

    async def deliver(messages: list[Message]) -> None:
        new = ""
        for message in messages:
            if isinstance(message, Said):
                new += text_of(message.units)
        await connection.send({"new": new, "deleted": ""})

    async with service.speech(request, deliver) as speech:
        await connection.run_stream(speech.stream, _listen(connection, speech.stream, first))
    await connection.send(DONE)


def _request(service: Service, settings: dict[str, Any]) -> Start:
    """Convert a client's settings; a value of any type may be in them."""
    target = settings.get("target_lang") or service.engines.resolved.config.target_language
    targets: tuple[str, ...] = ()
    if target is not None:
        targets = (str(target),)
    source = settings.get("source_lang")
    if source is not None:
        source = str(source)
    return Start(
        source=source,
        targets=targets,
        sample_rate=sampling_rate(settings.get("sample_rate", SAMPLE_RATE)),
        live=False,
    )


async def _listen(connection: Connection, stream: SpeakerStream, first: bytes) -> None:
    message: bytes | dict[str, Any] = first
    while isinstance(message, bytes) or "end_of_stream" not in message:
        if isinstance(message, bytes):
            await stream.feed(message)
        message = await connection.receive()
