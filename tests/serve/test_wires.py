"""Other people's clients against ``alignatt serve`` on fake engines."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from openai import AsyncOpenAI

from alignatt_agent.serve.access import MAX_MESSAGE
from tests.fakes import agent as fakes
from tests.serve.live import (
    TALK,
    WORDS,
    RemoteSocket,
    german,
    pcm,
    pieces,
    send,
    start,
    text_of,
    until,
)


# ---------------------------------------------------------------------- Simulstream
def simulstream(client, settings, data, path="/"):
    """Stream as Simulstream's clients do; returns the answers."""
    with client.websocket_connect(path) as socket:
        return simulstream_talk(socket, settings, data)


def simulstream_talk(socket, settings, data):
    socket.send_json(settings)
    for piece in pieces(data):
        socket.send_bytes(piece)
    socket.send_json({"end_of_stream": True})
    found = [socket.receive_json()]
    while "end_of_processing" not in found[-1]:
        found.append(socket.receive_json())
    return found


def joined(found):
    assert all(answer["deleted"] == "" for answer in found[:-1])
    return "".join(answer["new"] for answer in found[:-1])


SETTINGS = {
    "sample_rate": 16000,
    "source_lang": "English",
    "target_lang": "German",
    "metrics_metadata": {"wav_name": "talk.wav"},
}


@pytest.mark.parametrize("path", ["/", "/ws"])
def test_simulstream_messages_get_simulstream_answers(client, path):
    found = simulstream(client, SETTINGS, TALK, path)
    assert joined(found) == " " + german(WORDS)
    assert len(found) == int(WORDS / 2 / 0.85) + 1 + 1 + 1  # steps, the rest, the end, the mark


def test_one_connection_carries_one_stream_after_the_other(client):
    with client.websocket_connect("/ws") as socket:
        german_one = simulstream_talk(socket, SETTINGS, TALK)
        chinese = simulstream_talk(socket, SETTINGS | {"target_lang": "zh"}, TALK)
        socket.send_json({"end_of_stream": True})
        assert socket.receive_json() == {"end_of_processing": True}
    assert joined(german_one) == " " + german(WORDS)
    assert joined(chinese) == "".join(fakes.translated(fakes.word(k), True) for k in range(WORDS))


# ---------------------------------------------------------------------- OpenAI
def openai_client(server):
    return AsyncOpenAI(api_key="none", base_url=f"http://127.0.0.1:{server.port}/v1")


async def openai_talk(server, language, data, transcription=True):
    """Stream with the official SDK; returns its events."""
    found = []
    async with openai_client(server).realtime.translations.connect(model="any") as connection:
        audio = {"output": {"language": language}}
        if transcription:
            audio["input"] = {"transcription": {"model": "any"}}
        await connection.session.update(session={"audio": audio})
        for piece in pieces(data, 9600):
            encoded = base64.b64encode(piece).decode()
            await connection.session.input_audio_buffer.append(audio=encoded)
        await connection.session.close()
        async for event in connection:
            found.append(event)
            if event.type in ("session.closed", "error"):
                break
    return found


def at_24_khz(words):
    talk = fakes.talk(words)
    positions = np.arange(len(talk) * 3 // 2) * 2 // 3
    return pcm(talk[positions])


def test_the_openai_sdk_completes_a_talk(server):
    found = asyncio.run(openai_talk(server, "de", at_24_khz(WORDS)))
    kinds = [event.type for event in found]
    assert kinds[:2] == ["session.created", "session.updated"]
    assert kinds[-1] == "session.closed"
    said = [event for event in found if event.type == "session.output_transcript.delta"]
    assert "".join(event.delta for event in said) == " " + german(WORDS)
    elapsed = [event.elapsed_ms for event in said]
    assert elapsed == sorted(elapsed)
    heard = "".join(
        event.delta for event in found if event.type == "session.input_transcript.delta"
    )
    assert heard.split() == [fakes.word(k) for k in range(WORDS)]


def test_the_openai_sdk_is_told_what_is_wrong(server):
    (*_, error) = asyncio.run(openai_talk(server, "klingon", at_24_khz(2)))
    assert (error.type, error.error.code) == ("error", "language")
    assert error.error.type == "invalid_request_error"


def test_the_openai_sdk_sends_a_talk_in_one_event(server):
    """OpenAI allows 15 MiB of audio in an event."""

    async def talk():
        async with openai_client(server).realtime.translations.connect(model="any") as connection:
            await connection.session.update(session={"audio": {"output": {"language": "de"}}})
            audio = base64.b64encode(at_24_khz(WORDS)).decode()
            assert len(audio) > MAX_MESSAGE
            await connection.session.input_audio_buffer.append(audio=audio)
            await connection.session.close()
            return [event async for event in connection]

    said = [event.delta for event in asyncio.run(talk()) if hasattr(event, "delta")]
    assert "".join(said) == " " + german(WORDS)


def test_the_openai_sdk_transcribes(server):
    async def talk():
        query = {"intent": "transcription"}
        async with openai_client(server).realtime.connect(extra_query=query) as connection:
            audio = {"input": {"transcription": {"model": "any"}, "turn_detection": None}}
            await connection.session.update(session={"type": "transcription", "audio": audio})
            for _ in range(2):  # two turns
                encoded = base64.b64encode(at_24_khz(WORDS)).decode()
                await connection.input_audio_buffer.append(audio=encoded)
                await connection.input_audio_buffer.commit()
            found, ends = [], 0
            async for event in connection:
                found.append(event)
                ends += getattr(event, "transcript", "").endswith(fakes.word(WORDS - 1))
                if ends == 2:
                    break
        return found

    found = asyncio.run(talk())
    assert [event.type for event in found[:2]] == ["session.created", "session.updated"]
    whole = " ".join(fakes.word(k) for k in range(WORDS))
    texts = [event.transcript for event in found if hasattr(event, "transcript")]
    assert " ".join(texts) == f"{whole} {whole}"
    items = [event.item_id for event in found if event.type == "input_audio_buffer.committed"]
    assert len(items) == len(set(items)) == len(texts)
    for item, text in zip(items, texts, strict=True):
        deltas = [
            event.delta for event in found if hasattr(event, "delta") and event.item_id == item
        ]
        assert "".join(deltas) == text


# ---------------------------------------------------------------------- lines of the documents
DOCS = Path(__file__).resolve().parents[2] / "docs"
TEXT = "".join((DOCS / name).read_text(encoding="utf-8") for name in ("serve.md", "evaluation.md"))
LINES = re.findall(r"^(?:simulstream_wavs_client|curl) .*$", TEXT, flags=re.M)
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, flags=re.S)


@pytest.mark.parametrize("client", [*LINES, *BLOCKS], ids=lambda text: text.split()[0])
def test_every_client_of_the_documents_runs(server, tmp_path, monkeypatch, client):
    rate = 24_000 if client in BLOCKS else 16_000
    for name in ("talk.wav", "a.wav"):
        sound = np.frombuffer(at_24_khz(WORDS), "<i2") / 32768
        fakes.write_talk(tmp_path / name, sound if rate == 24_000 else fakes.talk(WORDS), rate)
    (tmp_path / "wavs.txt").write_text("talk.wav\na.wav\n")
    with RemoteSocket(server.port) as socket:
        start(socket, room="talk")
        send(socket, stop=True)
        until(socket, "end")
    text = client.replace(":8080", f":{server.port}")
    command = [sys.executable, "-c", text] if client in BLOCKS else shlex.split(text)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    result = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr
    last = german(WORDS).split(". ")[-1]
    assert last in result.stdout + result.stderr or "All 2 files sent" in result.stderr


# ---------------------------------------------------------------------- signals
def test_a_signal_lets_speakers_finish_and_is_no_failure(tmp_path):
    root = Path(__file__).resolve().parents[2]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.serve.live", tmp_path],
        cwd=root,
        stdout=subprocess.PIPE,
        text=True,
    )
    port = process.stdout.readline().strip().strip("/").rpartition(":")[2]
    with RemoteSocket(port) as socket:
        start(socket)
        send(socket)
        found = until(socket, "said")
        process.send_signal(signal.SIGTERM)
        found += until(socket, "error")
    assert found[-1]["code"] == "closing"
    assert german(WORDS).startswith(text_of(found))
    assert process.communicate(timeout=30)[0] == "stopped\n"
    assert process.returncode == 0
