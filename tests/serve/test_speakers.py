"""``alignatt serve`` on fake engines: what speakers get, and what is refused."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from starlette.testclient import TestClient

from alignatt_agent.config.agent_config import load_config
from alignatt_agent.config.resolved import resolve
from alignatt_agent.serve.access import MAX_MESSAGE, MOST_WAITING
from alignatt_agent.serve.app import create_app
from alignatt_agent.serve.engines import EngineLoader
from tests.fakes import agent as fakes
from tests.serve.live import (
    TALK,
    WORDS,
    german,
    make_service,
    pcm,
    pieces,
    refused,
    speak,
    start,
    text_of,
    until,
)


@pytest.fixture
def service(tmp_path):
    return make_service(tmp_path)


@pytest.fixture
def client(service):
    with TestClient(create_app(service)) as client:
        client.service = service
        yield client


def test_a_talk_is_translated_as_it_is_heard(client):
    found = speak(client, targets=["de", "zh"], detail="why", live=False)
    ready, *_, end = found
    assert ready["type"] == "ready"
    assert (ready["protocol"], ready["source"], ready["targets"]) == (1, "en", ["de", "zh"])
    assert ready["languages"][1] == {"code": "zh", "name": "Chinese", "spaced": False, "rtl": False}
    assert text_of(found) == german(WORDS)
    chinese = [fakes.translated(fakes.word(k), True) for k in range(WORDS)]
    assert text_of(found, "zh") == "".join(chinese)
    assert end == {"type": "end", "audio_s": WORDS / 2}
    steps = [message["audio_s"] for message in found if message["type"] == "status"]
    assert steps[:3] == [0.85, 1.7, 2.55]  # a file keeps its grid
    early = [m for m in found if m["type"] == "said" and m["audio_s"] < WORDS / 2]
    assert len(early) > 6
    for message in early:
        for _, begin, finish in message["units"]:
            assert 0 <= begin <= finish <= message["audio_s"]


def test_the_configured_recogniser_is_started(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "alignatt_agent.cascade.loading.load_engines", lambda *given: asked.append(given)
    )
    monkeypatch.setattr("alignatt_agent.serve.engines.check_requests", lambda resolved: None)
    path = fakes.write_config(tmp_path, speech={"recognizer": "whisper"})
    EngineLoader().load(resolve(load_config(str(path)), ["de"]))
    ((_, heads, recognizer),) = asked
    assert heads
    assert recognizer == "whisper"


def test_the_page_can_tell_why_it_waits(tmp_path):
    with TestClient(create_app(make_service(tmp_path, hold_back_ms=600))) as client:
        found = speak(client, detail="why", live=False)
    heard = [message for message in found if message["type"] == "heard"]
    first = next(message for message in heard if message["words"])
    assert first["words"][0] == ["word0", 0.0, 0.5, "new"]
    assert 0 < first["accessible"] <= len(first["words"])
    assert {word[3] for message in heard for word in message["words"]} <= {
        *("settled", "stable", "new")
    }
    drafts = [message for message in found if message["type"] == "draft"]
    waiting = [draft for draft in drafts if draft["reason"] == "source-frontier"]
    assert waiting
    for draft in waiting:
        place = draft["tokens"][draft["accepted"]][1]
        assert place >= draft["edge"]
        assert 0 <= draft["said"] <= draft["accepted"]


@pytest.mark.parametrize(
    ("detail", "kinds"),
    [
        ("text", {"ready", "said", "status", "end"}),
        ("words", {"ready", "said", "status", "end", "heard"}),
        ("why", {"ready", "said", "status", "end", "heard", "draft"}),
    ],
)
def test_each_client_gets_the_detail_that_it_asks_for(client, detail, kinds):
    assert {message["type"] for message in speak(client, detail=detail)} == kinds


def test_captions_of_the_speech_itself(client):
    found = speak(client, targets=["English", "German"])
    assert text_of(found, "en") == " ".join(map(fakes.word, range(WORDS)))
    assert text_of(found) == german(WORDS)


def test_any_sampling_rate_will_do(client):
    data = pcm(np.repeat(fakes.talk(WORDS), 3))
    with client.websocket_connect("/ws") as socket:
        found = [start(socket, sample_rate=48_000)]
        for piece in pieces(data, 9602):
            socket.send_bytes(piece)
        socket.send_json({"type": "stop"})
        found += until(socket, "end")
    assert text_of(found) == german(WORDS)
    assert abs(found[-1]["audio_s"] - WORDS / 2) < 0.01


def test_stop_without_audio(client):
    assert [message["type"] for message in speak(client, b"")] == ["ready", "status", "end"]


ABUSE = [
    ("no JSON", ["hello"], "json", 1008),
    ("not an object", ["[1, 2]"], "json", 1008),
    ("deep JSON", ["[" * 100_000], "json", 1008),
    ("unknown key", [{"type": "start", "targets": ["de"], "sampel_rate": 1}], "start", 1008),
    ("no targets", [{"type": "start", "targets": []}], "language", 1008),
    ("unknown language", [{"type": "start", "targets": ["klingon"]}], "language", 1008),
    ("no head set", [{"type": "start", "targets": ["it"]}], "language", 1008),
    ("other speech", [{"type": "start", "targets": ["de"], "source": "zh"}], "language", 1008),
    ("rate 32", [{"type": "start", "targets": ["de"], "sample_rate": 32}], "sample-rate", 1008),
    ("rate 2e9", [{"type": "start", "targets": ["de"], "sample_rate": 2e9}], "sample-rate", 1008),
    ("rate NaN", ['{"type": "start", "targets": ["de"], "sample_rate": NaN}'], "sample-rate", 1008),
    ("room", [{"type": "start", "targets": ["de"], "room": "a b"}], "room", 1008),
    ("no such session", [{"type": "start", "targets": ["de"], "session": "x"}], "session", 1008),
    ("odd bytes", [{"type": "start", "targets": ["de"]}, b"abc"], "odd-bytes", 1008),
    ("start twice", [{"type": "start", "targets": ["de"]}] * 2, "message", 1008),
    (
        "long message",
        [{"type": "start", "targets": ["de"]}, bytes(MAX_MESSAGE + 2)],
        *("message-size", 1009),
    ),
]


@pytest.mark.parametrize(
    ("messages", "code", "close"), [case[1:] for case in ABUSE], ids=[case[0] for case in ABUSE]
)
def test_abuse_is_refused_with_a_reason_and_leaves_no_trace(client, messages, code, close):
    error, closed, reason = refused(client, *messages)
    assert (error["code"], error["final"], closed) == (code, True, close)
    assert reason
    assert error["message"].startswith(reason[:100])
    assert len(error["message"]) < 2000
    assert text_of(speak(client)) == german(WORDS)  # its place is free again


def test_bad_input_loses_nothing_that_was_heard(client):
    with client.websocket_connect("/ws") as socket:
        start(socket)
        for piece in pieces(TALK):
            socket.send_bytes(piece)
        socket.send_bytes(b"odd")
        found = until(socket, "error")
    assert text_of(found) == german(WORDS)


def test_speakers_beyond_the_limit_are_told_at_once_and_idle_ones_go(tmp_path):
    service = make_service(tmp_path, max_speakers=2, idle_s=0.4)
    with TestClient(create_app(service)) as client:
        with client.websocket_connect("/ws") as one, client.websocket_connect("/ws") as two:
            for socket in (one, two):
                assert start(socket)["type"] == "ready"
            error, closed, _ = refused(client, {"type": "start", "targets": ["de"]})
            assert (error["code"], closed) == ("busy", 1013)
            for socket in (one, two):
                assert until(socket, "error")[-1]["code"] == "idle"
        with client.websocket_connect("/ws") as silent:
            assert until(silent, "error")[-1]["code"] == "idle"
        assert text_of(speak(client)) == german(WORDS)


def test_connections_that_say_nothing_are_counted(client):
    service = client.service
    with contextlib.ExitStack() as stack:
        for _ in range(service.limits.max_speakers + MOST_WAITING):
            stack.enter_context(client.websocket_connect("/mt"))
        for path in ("/", "/ws", "/mt", "/v1/realtime/translations"):
            error, closed, _ = refused(client, path=path)
            assert (error["code"], closed) == ("busy", 1013)
    assert text_of(speak(client)) == german(WORDS)


def test_two_speakers_cannot_have_one_room(client):
    with client.websocket_connect("/ws") as socket:
        start(socket, room="talk")
        error, closed, _ = refused(client, {"type": "start", "targets": ["de"], "room": "talk"})
    assert (error["code"], closed) == ("room-taken", 1013)


@pytest.mark.parametrize(
    ("path", "headers", "code"),
    [
        ("/ws", {}, "token"),
        ("/ws?token=wrong", {}, "token"),
        ("/ws?token=viewer", {}, "token"),
        ("/ws?token=right", {"origin": "http://evil.example"}, "origin"),
        ("/mt", {}, "token"),
    ],
)
def test_strangers_are_told_so(tmp_path, path, headers, code):
    service = make_service(tmp_path, token="right", viewer_token="viewer")
    with TestClient(create_app(service)) as client:
        error, closed, _ = refused(client, path=path, headers=headers)
        assert (error["code"], closed) == (code, 1008)
        assert text_of(speak(client, path="/ws?token=right")) == german(WORDS)
        for query, status in (("", 401), ("token=viewer", 404), ("token=right", 404)):
            assert client.get(f"/transcript?room=x&{query}").status_code == status
        assert client.get("/health").json() == {"status": "ok", "token": True}
        assert client.get("/health?token=viewer").json()["max_speakers"] == 2
