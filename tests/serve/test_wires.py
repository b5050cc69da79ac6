"""Other people's clients against ``alignatt serve`` on fake engines."""

import asyncio
import base64
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from openai import AsyncOpenAI

from alignatt_agent.serve.access import MAX_MESSAGE
from alignatt_agent.serve.messages import Heard, Start, Timed
from alignatt_agent.serve.wires import realtime
from tests.fakes import agent as fakes
from tests.serve import live


# ---------------------------------------------------------------------- Simulstream
def simulstream(socket, **changes):
    """Stream as Simulstream's clients do; returns the answers."""
    socket.send_json(SETTINGS | changes)
    live.send(socket)
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
    with client.websocket_connect(path) as socket:  # it carries one stream after the other
        german, chinese = simulstream(socket), simulstream(socket, target_lang="zh")
        socket.send_json({"end_of_stream": True})
        assert socket.receive_json() == {"end_of_processing": True}
    assert joined(german) == " " + live.GERMAN
    steps = int(live.WORDS / 2 / 0.85)
    assert len(german) == steps + 1 + 1 + 1  # the rest, the end, the mark
    assert joined(chinese) == live.CHINESE


# ---------------------------------------------------------------------- OpenAI
def openai_client(server):
    return AsyncOpenAI(api_key="none", base_url=f"http://127.0.0.1:{server.port}/v1").realtime


async def openai_talk(server, language, data, size=9600, form=None):
    """Stream with the official SDK; returns its events."""
    found = []
    async with openai_client(server).translations.connect(model="any") as connection:
        audio = {"output": {"language": language}, "input": {"transcription": {"model": "any"}}}
        audio["input"] |= {"format": form} if form else {}
        await connection.session.update(session={"audio": audio})
        for piece in live.pieces(data, size):
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
    return live.pcm(talk[positions])


WHOLE = at_24_khz(live.WORDS)
"""OpenAI allows 15 MiB of audio in an event."""


@pytest.mark.parametrize(
    ("size", "data", "form"),
    [
        (9600, WHOLE, None),
        (len(WHOLE), WHOLE, {"type": "audio/pcm", "rate": 24_000}),
        (9600, live.TALK, {"type": "audio/pcm", "rate": 16_000}),
    ],
)
@live.asynchronous
async def test_the_openai_sdk_completes_a_talk(server, size, data, form):
    assert len(base64.b64encode(WHOLE)) > MAX_MESSAGE
    found = await openai_talk(server, "de", data, size, form)
    kinds = [event.type for event in found]
    assert kinds[:2] == ["session.created", "session.updated"]
    assert kinds[-1] == "session.closed"
    said = [event for event in found if event.type == "session.output_transcript.delta"]
    assert "".join(event.delta for event in said) == " " + live.GERMAN
    elapsed = [event.elapsed_ms for event in said]
    assert elapsed == sorted(elapsed)
    heard = [event.delta for event in found if event.type == "session.input_transcript.delta"]
    assert "".join(heard).split() == live.ENGLISH.split()


@live.asynchronous
async def test_the_openai_sdk_is_told_what_is_wrong(server):
    (*_, error) = await openai_talk(server, "klingon", at_24_khz(2))
    assert (error.type, error.error.code) == ("error", "language")
    assert error.error.type == "invalid_request_error"


@live.asynchronous
async def test_the_openai_sdk_transcribes(server):
    query, found, ends = {"intent": "transcription"}, [], 0
    async with openai_client(server).connect(extra_query=query) as connection:
        audio = {"input": {"transcription": {"model": "any"}, "turn_detection": None}}
        await connection.session.update(session={"type": "transcription", "audio": audio})
        for _ in range(2):  # two turns
            await connection.input_audio_buffer.append(audio=base64.b64encode(WHOLE).decode())
            await connection.input_audio_buffer.commit()
        async for event in connection:
            found.append(event)
            ends += getattr(event, "transcript", "").endswith(fakes.word(live.WORDS - 1))
            if ends == 2:
                break
    assert [event.type for event in found[:2]] == ["session.created", "session.updated"]
    texts = [event.transcript for event in found if hasattr(event, "transcript")]
    assert " ".join(texts) == f"{live.ENGLISH} {live.ENGLISH}"
    items = [event.item_id for event in found if event.type == "input_audio_buffer.committed"]
    assert len(items) == len(set(items)) == len(texts)
    for item, text in zip(items, texts, strict=True):
        deltas = [
            event.delta for event in found if hasattr(event, "delta") and event.item_id == item
        ]
        assert "".join(deltas) == text


TRANSCRIPTION = "/v1/realtime?intent=transcription"
KIND = "conversation.item.input_audio_transcription."
AT_16_KHZ = {
    "type": "session.update",
    "session": {"audio": {"input": {"format": {"type": "audio/pcm", "rate": 16_000}}}},
}


def append(socket, data):
    audio = base64.b64encode(data).decode()
    socket.send_json({"type": "input_audio_buffer.append", "audio": audio})


def test_words_are_sent_before_the_sentence_ends(client, monkeypatch):
    """The client has sent 4.5 s, and the first sentence, which lasts 3 s, is not yet closed."""
    monkeypatch.setattr(realtime, "Start", partial(Start, live=False))  # steps of 850 ms
    with client.websocket_connect(TRANSCRIPTION) as socket:
        socket.send_json(AT_16_KHZ)
        live.until(socket, "session.updated")
        append(socket, live.TALK[: round(4.5 * 32_000)])
        found = [socket.receive_json() for _ in range(3)]
        assert [event.get("delta") for event in found] == [
            None,
            "word0 word1 word2 word3 word4",
            " word5. word6",  # no sentence ends before a small letter
        ]
        append(socket, live.TALK[round(4.5 * 32_000) :])
        socket.send_json({"type": "input_audio_buffer.commit"})
        while not found[-1].get("transcript", "").endswith(fakes.word(live.WORDS - 1)):
            found.append(socket.receive_json())
    items = [event["item_id"] for event in found if event["type"].endswith("committed")]
    assert items
    for item in items:
        mine = [event for event in found if event["item_id"] == item]
        deltas = [event["delta"] for event in mine if "delta" in event]
        assert "".join(deltas) == mine[-1]["transcript"]
        assert mine[-1]["type"] == f"{KIND}completed"


def test_a_later_transcript_corrects_only_the_completed_item(service):
    """The recognizer changes a word that was sent, and ends the sentence before the last one."""
    sent = []

    class Connection:
        query, sent = {}, 0

        async def send(self, message):
            sent.append(message)

    session = realtime._Transcription(Connection(), service)
    stable = [(" a", 0.0, 1.0, "stable"), (" b", 1.0, 2.0, "stable"), (" c", 2.0, 3.0, "stable")]
    new = [*stable, (" d", 3.0, 4.0, "new")]
    closed = [Timed(" a", 0.0, 1.0), Timed(" B.", 1.0, 2.0)]

    async def tell():
        for words, accessible, sentences in ((new, 2, []), (new, 4, []), (stable[2:], 1, [closed])):
            await session._tell(
                Heard(audio_s=4.0, words=words, accessible=accessible, closed=sentences)
            )
        last = [Timed(" c", 2.0, 3.0), Timed(" d", 3.0, 4.0)]
        await session._tell(Heard(audio_s=5.0, words=[], accessible=0, closed=[last]))

    asyncio.run(tell())
    assert [event.get("delta", event.get("transcript")) for event in sent] == [
        None,
        "a b",
        " c",
        "a B.",
        None,
        "d",
        "c d",
    ]


def test_commits_without_audio_twice_and_in_mid_step(client):
    commit = {"type": "input_audio_buffer.commit"}
    with client.websocket_connect(TRANSCRIPTION) as socket:
        socket.send_json(AT_16_KHZ)
        for _ in range(2):
            socket.send_json(commit)
        for turn in (live.TALK[: 6 * 16_000], live.TALK):
            append(socket, turn)
            socket.send_json(commit)  # the first step has not ended
            socket.send_json(commit)
        found = [socket.receive_json()]
        while not found[-1].get("transcript", "").endswith(fakes.word(live.WORDS - 1)):
            found.append(socket.receive_json())
    assert not [event for event in found if event["type"] == "error"]
    text = " ".join(event["transcript"] for event in found if "transcript" in event)
    assert text == f"{live.ENGLISH.partition('. ')[0]}. {live.ENGLISH}"


# ---------------------------------------------------------------------- WhisperLiveKit
def words(count, begin=0):
    return [[fakes.word(k), 500.0 * k, 500.0 * k + 400] for k in range(begin, begin + count)]


def update(seq, heard, tail=(), final=False, utterance=0):
    return {
        "type": "update",
        "seq": seq,
        "utterance_id": utterance,
        "words": heard,
        "tail": {"words": [[text, None, None] for text in tail]},
        "clock_ms": 4000.0,
        "is_final": final,
    }


def answers(client, *updates, **init):
    """Begin, and send updates; returns the answers."""
    with client.websocket_connect("/mt") as socket:
        found = []
        for message in (live.INIT | init, *updates):
            socket.send_json(message)
            found.append(socket.receive_json())
        return found


def test_whisperlivekits_words_are_translated(client):
    given = [update(1, words(3), ["word3", "word4"]), update(2, words(6), final=True)]
    given += [update(3, words(2, 6), ["word8"], utterance=1)]
    first, early, final, next_one = answers(client, *given)
    assert (first["type"], first["direction"]) == ("init_ok", "en-de")
    assert (early["seq"], early["final"]) == (1, False)
    assert live.german(6).startswith(early["committed_text"])
    assert 0 < len(early["committed_text"].split()) <= 3
    assert early["covered_source_units"] <= 3
    assert final["committed_text"] == live.german(6)
    assert early["committed_delta"] + final["committed_delta"] == " " + live.german(6)
    assert next_one["committed_text"].startswith("Wort6")


def test_whisperlivekits_history_and_context_are_in_the_prompt(client, service, monkeypatch):
    monkeypatch.setattr("alignatt_agent.serve.request_checks.check_contexts", lambda *_, **__: None)
    said = [["It works.", "Es geht."], ["Well.", "Gut."]]
    terms = f"vLLM\n{fakes.word(1)} = Wort"
    for kept in (0, 2):
        config = service.engines.resolved.config
        prompt = config.prompt.model_copy(update={"history": kept})
        config = config.model_copy(update={"prompt": prompt})
        service.engines.resolved = replace(service.engines.resolved, config=config)
        answers(client, update(1, words(3)), history=said, context_text=terms)
        asked = fakes.FakeTranslation.prompts[-1]
        assert "Names and terms of the talk: vLLM." in asked
        assert f"translations: {fakes.word(1)} = Wort." in asked
        assert all((text in asked) == bool(kept) for pair in said for text in pair)


HISTORY_OF_ANY_TEXT = [
    ["Write <end_of_turn> now.", "Schreib jetzt <end_of_turn>."],
    ["The cost = the price | more.", "Die Kosten = der Preis | mehr."],
    ["Use a = de: b | c here.", "Nimm hier a = de: b | c."],
    ["= \\", "\\ ="],
    ["A bell \x07 and \u2063.", "Eine Glocke \x07 und \u2063."],
    ["Long " * 2_000, "Lang " * 2_000],
]


@pytest.mark.parametrize("pair", HISTORY_OF_ANY_TEXT, ids=lambda pair: pair[0][:20])
def test_whisperlivekits_history_is_any_text(client, service, pair):
    config = service.engines.resolved.config
    prompt = config.prompt.model_copy(update={"history": 2, "history_tokens": 500})
    config = config.model_copy(update={"prompt": prompt})
    service.engines.resolved = replace(service.engines.resolved, config=config)
    given = [["It works.", "Es geht."], pair]
    begun, answer = answers(client, update(1, words(3), final=True), history=given)
    assert begun["type"] == "init_ok"
    assert answer["committed_text"] == live.german(3)
    asked = fakes.FakeTranslation.prompts[-1]
    # The fake tokenizer has no control tokens; a sentence beyond the limit is cut.
    shown = [" ".join(text.split()) in " ".join(asked.split()) for text in pair]
    assert shown == [len(pair[0]) < 100] * 2


def test_whisperlivekits_utterance_goes_on_after_a_new_connection(client, monkeypatch):
    monkeypatch.setattr("alignatt_agent.serve.request_checks.check_beginning", lambda *_: None)
    given = [update(4, words(4)), update(6, words(6), final=True)]
    _, *found = answers(client, *given, accepted_target_prefix=live.german(2))
    assert all(answer["committed_text"].startswith(live.german(2) + " ") for answer in found)
    deltas = "".join(answer["committed_delta"] for answer in found)
    assert live.german(2) + deltas == found[-1]["committed_text"] == live.german(6)


# ---------------------------------------------------------------------- lines of the documents
DOCS = Path(__file__).resolve().parents[2] / "docs"
TEXT = "".join((DOCS / name).read_text(encoding="utf-8") for name in ("serve.md", "evaluation.md"))
LINES = re.findall(r"^(?:simulstream_wavs_client|curl) .*$", TEXT, flags=re.M)
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, flags=re.S)


@pytest.mark.parametrize("client", [*LINES, *BLOCKS], ids=lambda text: text.split()[0])
def test_every_client_of_the_documents_runs(server, tmp_path, monkeypatch, client):
    rate = 24_000 if client in BLOCKS else 16_000
    for name in ("talk.wav", "a.wav"):
        sound = np.frombuffer(WHOLE, "<i2") / 32768
        fakes.write_talk(tmp_path / name, sound if rate == 24_000 else fakes.talk(live.WORDS), rate)
    (tmp_path / "wavs.txt").write_text("talk.wav\na.wav\n")
    live.speak(server, room="talk")
    text = client.replace(":8080", f":{server.port}")
    command = [sys.executable, "-c", text] if client in BLOCKS else shlex.split(text)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    result = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr
    last = live.GERMAN.split(". ")[-1]
    assert last in result.stdout + result.stderr or "All 2 files sent" in result.stderr
