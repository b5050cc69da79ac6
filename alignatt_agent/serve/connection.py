"""The WebSocket connection to an untrusted client."""

import asyncio
import contextlib
import json
import math
import time
from collections.abc import Callable, Coroutine
from typing import Any

from pydantic_core import from_json
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketDisconnected

from alignatt_agent.serve.access import (
    GOING,
    LATER,
    MAX_MESSAGE,
    POLICY,
    TOO_BIG,
    ClosingError,
    RefusedError,
)
from alignatt_agent.serve.messages import Message
from alignatt_agent.serve.service import Service
from alignatt_agent.serve.speaker_stream import SpeakerStream

SEND_S = 30.0
"""Seconds after which a client that reads nothing is treated as disconnected."""

MOST_MARKS = 99
"""Maximum number of quotation marks, brackets and commas in a long JSON message."""

REASON = 120
"""Maximum length of a close reason, in UTF-8 bytes (RFC 6455 allows 123)."""


class Connection:
    """An accepted WebSocket connection of a client."""

    def __init__(self, socket: WebSocket, service: Service) -> None:
        self._socket = socket
        self._service = service
        self.path = socket.url.path
        self.query = socket.query_params
        self.sent = 0  # number of messages sent so far
        self.token = ""  # the client's token
        self.speaking = False  # whether the client is a speaker
        self._gone = False
        self.since = math.inf  # start of the current wait for a message
        self.wait = asyncio.timeout(None)  # the limit of the current wait for a message
        self._limit_s = min(service.limits.silent_s, service.limits.idle_s)

    async def receive(self, largest: int = MAX_MESSAGE) -> bytes | dict[str, Any]:
        """Return the next message (audio or a JSON object) of at most ``largest`` bytes.

        Raises:
            RefusedError: the message is too long, is not a JSON object, or is not sent in time.
            WebSocketDisconnect: the client disconnected.
        """
        begin = time.monotonic()
        self.since = begin
        # The limit begins here: the server's work since the last message is no silence.
        self.wait = asyncio.timeout(self._limit_s)
        try:
            # asyncio.wait_for is not used: before Python 3.12, it may lose a cancellation.
            async with self.wait:
                message = await self._socket.receive()
        except TimeoutError:
            silent_s = round(time.monotonic() - begin, 1)
            close = POLICY
            # The wait was ended for a new client, so this client may try again later.
            if self.since != begin:
                close = LATER
            raise RefusedError("idle", f"no message for {silent_s:g} s", close) from None
        finally:
            self.since = math.inf
        self._limit_s = self._service.limits.idle_s
        if message["type"] == "websocket.disconnect":
            self._gone = True
            raise WebSocketDisconnect(message.get("code", 1005))
        data: bytes | str | None = message.get("bytes")
        if data is None:
            data = message.get("text") or ""
        if len(data) > largest:
            expected = f"a message must be at most {largest} bytes"
            raise RefusedError("message-size", f"{expected}, got {len(data)}", TOO_BIG)
        if isinstance(data, bytes):
            return data
        return _json(data)

    async def send(self, message: Message | dict[str, Any]) -> None:
        """Send a message of any protocol, unless the client has disconnected."""
        if self._gone:
            return
        self.sent += 1
        if isinstance(message, Message):
            text = message.model_dump_json()
        else:
            text = json.dumps(message, ensure_ascii=False)
        try:
            async with asyncio.timeout(SEND_S):
                await self._socket.send_text(text)
        # Starlette and uvicorn report a lost connection in several ways.
        except (TimeoutError, WebSocketDisconnect, WebSocketDisconnected, OSError, RuntimeError):
            self._gone = True

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the connection with a reason."""
        # The last character may be cut.
        short = reason.encode()[:REASON].decode(errors="ignore")
        with contextlib.suppress(WebSocketDisconnect, WebSocketDisconnected, OSError, RuntimeError):
            if not self._gone:
                await self._socket.close(code, short)
        self._gone = True

    async def run_stream(
        self,
        stream: SpeakerStream,
        listening: Coroutine[Any, Any, None],
        stored: Callable[[], bool] | None = None,
    ) -> None:
        """Run a speaker's stream until it fails, ``listening`` ends, or the server stops.

        Unless the stream fails, the audio received so far is still translated. If the server stops
        and the talk is ``stored``, its open sentence stays open, because the client continues the
        talk when the server is started again. ``None`` means that clients cannot continue.

        Raises:
            RefusedError: a message is invalid, the engines failed, or the server is stopping.
            WebSocketDisconnect: the client disconnected.
        """
        service = self._service
        self.speaking = True
        running = asyncio.ensure_future(stream.run())
        feeding = asyncio.ensure_future(listening)
        closing = asyncio.ensure_future(service.closing.wait())
        try:
            await asyncio.wait({running, feeding, closing}, return_when=asyncio.FIRST_COMPLETED)
            stopped = closing.done() and not feeding.done()
            if not running.done():
                if stopped:
                    feeding.cancel()  # no more audio is accepted
                if stopped and stored is not None and stored():
                    stream.suspend()
                else:
                    stream.end()
                await asyncio.wait({running})
            running.result()
            if stopped and stored is not None:
                raise ClosingError(kept=not stream.finished and stored(), audio_s=stream.audio_s)
            if stopped:
                raise RefusedError("closing", "the server is shutting down", GOING)
            feeding.result()
        finally:
            self.speaking = False
            for task in (running, feeding, closing):
                task.cancel()
            await asyncio.gather(running, feeding, closing, return_exceptions=True)


def _json(text: str) -> dict[str, Any]:
    # An event with audio has few values. Many small ones would take a multiple of the memory.
    if len(text) > MAX_MESSAGE and sum(map(text.count, '"[,')) > MOST_MARKS:
        raise RefusedError("message-size", "a long JSON message may contain only audio", TOO_BIG)
    with contextlib.suppress(ValueError):  # also raised for deep nesting and lone surrogates
        data = from_json(text)
        if isinstance(data, dict):
            return data
    raise RefusedError("json", f"a text message must be a JSON object, got {text[:40]!r}")
