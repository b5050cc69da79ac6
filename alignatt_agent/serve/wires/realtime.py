"""OpenAI's realtime translation (``/v1/realtime/translations``), text only.

Its transcript deltas are append-only, like all our output. Audio is 24 kHz 16-bit little-endian
mono in base64. ``session.input_transcript.delta`` comes for every complete sentence, if asked for.
"""

from __future__ import annotations

import base64
import binascii
import copy
import secrets
import time
from typing import Any

from alignatt_agent.serve.access import BROKEN, RefusedError
from alignatt_agent.serve.rooms import Message
from alignatt_agent.serve.service import OpenTalk, Service, TalkRequest
from alignatt_agent.serve.wires.connection import Connection

PATHS = ("/v1/realtime/translations",)

RATE = 24_000
"""Sampling rate of the protocol, in Hz."""

LONGEST_S = 86_400
"""Expiry that a session announces."""


async def serve(connection: Connection, service: Service) -> None:
    """Serve one session; what the client calls the model does not matter.

    Raises:
        RefusedError: the session cannot be served, or no longer.
        WebSocketDisconnect: the client disconnected.
    """
    await _Session(connection, service).serve()


async def refuse(connection: Connection, service: Service, error: RefusedError) -> None:
    """Send the error as the protocol has it."""
    kind = "server_error" if error.close == BROKEN else "invalid_request_error"
    content = {"type": kind, "code": error.code, "message": str(error)}
    await _send(connection, "error", error=content)


async def _send(connection: Connection, kind: str, **content: Any) -> None:
    event_id = f"event_{connection.sent + 1}"
    await connection.send({"type": kind, "event_id": event_id, **content})


class _Session:
    def __init__(self, connection: Connection, service: Service) -> None:
        self._connection = connection
        self._service = service
        model = service.engines.resolved.config.models.translation.path
        self._settings: dict[str, Any] = {
            "id": f"sess_{secrets.token_hex(8)}",
            "type": "translation",
            "model": connection.query.get("model") or model,
            "expires_at": int(time.time()) + LONGEST_S,
            "audio": {"input": {}, "output": {"language": None}},
        }

    async def serve(self) -> None:
        await _send(self._connection, "session.created", session=self._settings)
        first = await self._wait_for_audio()
        if first is not None:
            await self._translate(first)
        await _send(self._connection, "session.closed")

    async def _translate(self, first: bytes) -> None:
        language = self._settings["audio"]["output"].get("language")
        request = TalkRequest(None, [] if language is None else [str(language)], RATE, live=True)

        async def deliver(found: list[Message]) -> None:
            for message in found:
                await self._tell(message, speech)

        async def listen() -> None:
            data: bytes | None = first
            while data is not None:
                await speech.stream.feed(data)
                data = await self._wait_for_audio()

        async with self._service.speech(request, deliver) as speech:
            await self._connection.run_stream_or_restart_engines(speech.stream, listen())

    async def _wait_for_audio(self) -> bytes | None:
        """Return the next piece of audio; ``None`` when the client closes the session."""
        while True:
            event = await self._connection.receive()
            kind = "binary" if isinstance(event, bytes) else event.get("type")
            if kind == "session.close":
                return None
            if kind == "session.input_audio_buffer.append":
                assert isinstance(event, dict)
                return _decoded(event.get("audio"))
            if kind != "session.update":
                raise RefusedError("event", f"unknown event {str(kind)[:60]!r}")
            assert isinstance(event, dict)
            await self._update(event.get("session"))

    async def _update(self, wanted: Any) -> None:
        audio = wanted.get("audio") if isinstance(wanted, dict) else None
        settings = copy.deepcopy(self._settings)
        for side in ("input", "output"):
            given = audio.get(side) if isinstance(audio, dict) else None
            if isinstance(given, dict):
                settings["audio"][side] |= given
        self._settings = settings
        await _send(self._connection, "session.updated", session=settings)

    async def _tell(self, message: Message, speech: OpenTalk) -> None:
        elapsed = round(1000 * message.get("audio_s", 0.0))
        if message["type"] == "said":
            delta = speech.join([unit for unit, *_ in message["units"]])
            await _send(
                self._connection, "session.output_transcript.delta", delta=delta, elapsed_ms=elapsed
            )
        wanted = self._settings["audio"]["input"].get("transcription")
        if message["type"] == "heard" and wanted:
            for sentence in message["closed"]:
                delta = "".join(f" {word}" for word, *_ in sentence)
                end = round(1000 * sentence[-1][2])
                await _send(
                    self._connection, "session.input_transcript.delta", delta=delta, elapsed_ms=end
                )


def _decoded(audio: Any) -> bytes:
    try:
        return base64.b64decode(audio, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise RefusedError("audio", "audio has to be base64 of 24 kHz 16-bit mono PCM") from None
