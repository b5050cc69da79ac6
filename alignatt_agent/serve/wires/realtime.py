"""OpenAI's realtime translation and transcription, with text output only.

``/v1/realtime/translations``: transcript deltas are append-only. Audio is 16-bit little-endian mono
in base64, at 24 kHz or at the ``rate`` of the session. If the session requests a transcription, the
server sends a ``session.input_transcript.delta`` for every complete sentence.

``/v1/realtime?intent=transcription``: every sentence is an item. Its deltas are the words on which
two successive transcripts agree; if a later transcript differs, only the ``transcript`` of the
completed item contains the correction. A client's commit ends a turn, and more audio may follow.
"""

import asyncio
import binascii
import secrets
import time
from collections.abc import Sequence
from typing import Any

from alignatt_agent.serve.access import BROKEN, MAX_EVENT, MAX_MESSAGE, RefusedError
from alignatt_agent.serve.connection import Connection
from alignatt_agent.serve.messages import Heard, Message, Said, Start, text_of
from alignatt_agent.serve.request_checks import sampling_rate
from alignatt_agent.serve.service import Service
from alignatt_agent.text.sentences import ends_after

PATHS = ("/v1/realtime/translations", "/v1/realtime")

RATE = 24_000
"""Default sampling rate, in Hz."""

FORMAT = "audio/pcm"
"""The protocol's name for the audio format."""

MOST_SETTINGS = 4000
"""Maximum length of a session's settings, in characters, because every update is sent back."""

LONGEST_S = 86_400
"""Seconds until the announced expiry of a session."""


async def serve(connection: Connection, service: Service) -> None:
    """Serve one session; the client's model name is ignored."""
    transcribes = connection.query.get("intent") == "transcription"
    if connection.path == PATHS[1] and not transcribes:
        raise RefusedError("intent", f"{PATHS[1]} accepts only sessions with ?intent=transcription")
    session_class = _Transcription if transcribes else _Session
    await session_class(connection, service).serve()


async def refuse(connection: Connection, service: Service, error: RefusedError) -> None:
    """Send the error in the format of the protocol."""
    kind = "invalid_request_error"
    if error.close == BROKEN:
        kind = "server_error"
    content = {"type": kind, "code": error.code, "message": str(error)}
    await _send(connection, "error", error=content)


async def _send(connection: Connection, kind: str, **content: Any) -> None:
    event_id = f"event_{connection.sent + 1}"
    await connection.send({"type": kind, "event_id": event_id, **content})


class _Session:
    append, end = "session.input_audio_buffer.append", "session.close"
    _rate = RATE
    _began = False

    def __init__(self, connection: Connection, service: Service) -> None:
        self._connection = connection
        self._service = service
        self._settings: dict[str, Any] = {
            "id": f"sess_{secrets.token_hex(8)}",
            "type": "translation",
            "model": connection.query.get("model", "")[:200] or service.model,
            "expires_at": int(time.time()) + LONGEST_S,
            "audio": {"input": {}, "output": {"language": None}},
        }

    async def serve(self) -> None:
        await _send(self._connection, "session.created", session=self._settings)
        first = await self._wait_for_audio()
        if first is not None:
            await self._translate(first)
        await _send(self._connection, "session.closed")

    def _targets(self) -> tuple[str, ...]:
        language = self._settings["audio"]["output"].get("language")
        if language is None:
            return ()
        return (str(language),)

    async def _translate(self, first: bytes) -> None:
        request = Start(targets=self._targets(), sample_rate=self._rate)

        async def deliver(messages: list[Message]) -> None:
            for message in messages:
                await self._tell(message)

        async def listen() -> None:
            data: bytes | None = first
            while data is not None:
                # Between two pieces, other speakers are served.
                for begin in range(0, len(data), MAX_MESSAGE):
                    await speech.stream.feed(data[begin : begin + MAX_MESSAGE])
                data = await self._wait_for_audio()

        async with self._service.speech(request, deliver) as speech:
            await self._connection.run_stream(speech.stream, listen())

    async def _wait_for_audio(self) -> bytes | None:
        """Return the next piece of audio, or ``None`` if the client ends the session or turn."""
        while True:
            event = await self._connection.receive(MAX_EVENT)
            if isinstance(event, bytes):
                event = {"type": "binary"}
            kind = event.get("type")
            if kind == self.end:
                return None
            if kind == self.append:
                self._began = True
                # Decoding 15 MiB of audio would block the event loop.
                return await asyncio.to_thread(_decoded, event.get("audio"))
            if kind != "session.update":
                raise RefusedError("event", f"unknown event {str(kind)[:60]!r}")
            await self._update(event.get("session"))

    async def _update(self, session: Any) -> None:
        """Change the settings of input and output audio; ignore all other settings."""
        audio = dict(self._settings["audio"])
        changes = session.get("audio") if isinstance(session, dict) else None
        if isinstance(changes, dict):
            for side in audio:
                change = changes.get(side)
                if isinstance(change, dict):
                    audio[side] = audio[side] | change
        settings = self._settings | {"audio": audio}
        size = len(str(settings))
        if size > MOST_SETTINGS:
            text = f"settings must be at most {MOST_SETTINGS} characters, got {size}"
            raise RefusedError("session", text)
        self._set_rate(audio["input"].get("format"))
        self._settings = settings
        await _send(self._connection, "session.updated", session=settings)

    def _set_rate(self, audio_format: Any) -> None:
        """Set the sampling rate of an audio format, which is a name or a dictionary."""
        if not audio_format:
            return
        name = audio_format
        rate = RATE
        if isinstance(audio_format, dict):
            name = audio_format.get("type", FORMAT)
            rate = audio_format.get("rate") or RATE
        if name != FORMAT:
            text = f"unknown audio format {str(name)[:40]!r}; expected {FORMAT!r}"
            raise RefusedError("format", text)
        rate = sampling_rate(rate)
        if self._began and rate != self._rate:
            raise RefusedError("format", "the sampling rate cannot change after the first audio")
        self._rate = rate

    async def _tell(self, message: Message) -> None:
        if isinstance(message, Said):
            await self._tell_text("output", text_of(message.units), message.audio_s)
        if isinstance(message, Heard) and self._settings["audio"]["input"].get("transcription"):
            for sentence in message.closed:
                await self._tell_text("input", text_of(sentence), sentence[-1].end)

    async def _tell_text(self, side: str, delta: str, until_s: float) -> None:
        kind = f"session.{side}_transcript.delta"
        await _send(self._connection, kind, delta=delta, elapsed_ms=round(1000 * until_s))


class _Transcription(_Session):
    append, end = "input_audio_buffer.append", "input_audio_buffer.commit"
    _item: str | None = None
    _open = False  # whether the item is not yet completed
    _sent = 0  # number of words of the open sentence that were sent

    async def serve(self) -> None:
        self._settings |= {"type": "transcription", "object": "realtime.transcription_session"}
        await _send(self._connection, "session.created", session=self._settings)
        while True:
            first = await self._wait_for_audio()
            # ``None`` is a commit without audio, after which the session continues.
            if first is not None:
                self._sent = 0
                await self._translate(first)

    def _targets(self) -> tuple[str, ...]:
        return (self._service.checks.targets()[-1],)  # captions of the speech

    async def _tell(self, message: Message) -> None:
        if not isinstance(message, Heard):
            return
        for sentence in message.closed:
            await self._send_words(sentence, len(sentence))
            # The recognizer may end a sentence before words that were sent with it.
            await self._begin_item()
            seconds = round(sentence[-1].end - sentence[0].start, 2)
            usage = {"type": "duration", "seconds": seconds}
            transcript = text_of(sentence).strip()
            await self._tell_item("completed", transcript=transcript, usage=usage)
            self._open = False
            self._sent = max(0, self._sent - len(sentence))
        await self._send_words(message.words, self._certain(message))

    def _certain(self, heard: Heard) -> int:
        """Return the number of words of the open sentence that can be sent.

        Two successive transcripts agree on these words, and they are old enough to be translated.
        """
        states = [state for _, _, _, state in heard.words]
        agreed = len(states) - states.count("new")
        count = min(agreed, heard.accessible)
        texts = [text.strip() for text, _, _, _ in heard.words]
        (spoken,) = self._targets()
        for end in range(1, count):
            if ends_after(texts, end, spoken):
                return end  # the later words probably belong to the next item
        return count

    async def _send_words(self, words: Sequence[tuple[Any, ...]], count: int) -> None:
        """Send the first ``count`` words of the open sentence that were not sent yet."""
        delta = text_of(words[self._sent : count])
        if not delta:
            return
        if not self._open:
            delta = delta.lstrip()
        await self._begin_item()
        await self._tell_item("delta", delta=delta)
        self._sent = count

    async def _begin_item(self) -> None:
        if self._open:
            return
        previous = self._item
        self._item = f"item_{secrets.token_hex(8)}"
        self._open = True
        await _send(
            self._connection,
            "input_audio_buffer.committed",
            previous_item_id=previous,
            item_id=self._item,
        )

    async def _tell_item(self, kind: str, **content: Any) -> None:
        kind = f"conversation.item.input_audio_transcription.{kind}"
        await _send(self._connection, kind, item_id=self._item, content_index=0, **content)


def _decoded(audio: Any) -> bytes:
    try:
        return binascii.a2b_base64(audio, strict_mode=True)
    except (binascii.Error, TypeError, ValueError):
        raise RefusedError("audio", "audio must be encoded in base64") from None
