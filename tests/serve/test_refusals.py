"""Abuse and wrong messages, on every wire: each is refused with a reason and leaves no trace."""

import asyncio
import base64
import contextlib
import json
import time

import pytest
from starlette.testclient import TestClient

from alignatt_agent.serve.access import MAX_MESSAGE, MOST_WAITING
from alignatt_agent.serve.messages import Gap
from alignatt_agent.serve.speaker_stream import SpeakerStream
from alignatt_agent.serve.transcripts import FORMATS
from alignatt_agent.serve.wires import mt
from alignatt_agent.speech.prompt import ContextError
from tests.serve import live

OPENAI = "/v1/realtime/translations"
UPDATE = {"type": "update", "seq": 1, "utterance_id": 0, "words": [["word0", 0, 400]]}
COMMAND = "<end_of_turn>"
HALF = {"words": [["\ud800", 0, 400]]}
SIMULSTREAM = {"sample_rate": 16000, "source_lang": "English", "target_lang": "German"}
OPUS = {"type": "session.update", "session": {"audio": {"input": {"format": {"type": "opus"}}}}}
GERMAN = {"type": "session.update", "session": {"audio": {"output": {"language": "de"}}}}
LONG = {"audio": {"input": {"x" * 5000: 1}}}
APPEND = {"type": "session.input_audio_buffer.append"}


def no_commands(_, contexts):
    if any(COMMAND in text for text in contexts):
        raise ContextError(f"speech.context holds {COMMAND!r}")


def ours(**changes):
    return {"type": "start", "targets": ["de"], **changes}


def theirs(**changes):
    return [SIMULSTREAM | changes, live.TALK[:3200]]


def init(**changes):
    return [live.INIT | changes]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One server for all: no refusal takes anything away from those after it."""
    with live.client_of(tmp_path_factory.mktemp("shared")) as client:
        yield client


@pytest.mark.parametrize(
    ("path", "messages", "code"),
    [
        ("/ws", ["hello"], "json"),
        ("/ws", ["[1, 2]"], "json"),
        pytest.param("/ws", ["[" * 100_000], "json", id="deep JSON"),
        ("/ws", [ours(sampel_rate=1)], "start"),
        ("/ws", [ours(targets=[])], "language"),
        pytest.param("/ws", [ours(targets=["it"])], "language", id="no head set"),
        ("/ws", [ours(source="zh")], "language"),
        ("/ws", [ours(sample_rate=7999)], "sample-rate"),
        ("/ws", [ours(sample_rate=16000.5)], "sample-rate"),
        ("/ws", ['{"type": "start", "targets": ["de"], "sample_rate": NaN}'], "sample-rate"),
        ("/ws", [ours(room="a b")], "room"),
        pytest.param("/ws", [ours(session="x")], "session", id="no such session"),
        pytest.param("/ws", [ours(), b"abc"], "odd-bytes", id="odd bytes"),
        pytest.param("/ws", [ours()] * 2, "message", id="start twice"),
        pytest.param("/ws", [json.dumps(ours(session="\ud800"))], "json", id="surrogate"),
        pytest.param("/ws", [ours(), bytes(MAX_MESSAGE + 2)], "message-size", id="long message"),
        ("/", theirs(target_lang=None), "language"),
        ("/", theirs(target_lang={"a": 1}), "language"),
        ("/", theirs(source_lang="zh"), "language"),
        ("/", theirs(sample_rate="16000"), "sample-rate"),
        (OPENAI, [APPEND | {"audio": "no base64!"}], "audio"),
        (OPENAI, [APPEND], "audio"),
        (OPENAI, [OPUS], "format"),
        (OPENAI, [{"type": "response.create"}], "event"),
        ("/v1/realtime", [], "intent"),
        (OPENAI, [{"type": "session.update", "session": LONG}], "session"),
        pytest.param(OPENAI, ['{"a": [' + "0," * 10**6 + "0]}"], "message-size", id="long JSON"),
        pytest.param("/ws", [ours(targets=["x" * 20_000])], "language", id="long name"),
        pytest.param("/mt", [{"type": "x" * 20_000}], "bad_protocol", id="long type"),
        ("/mt", init(target_lang="fr"), "unsupported_direction"),
        ("/mt", init(source_lang="de"), "unsupported_direction"),
        ("/mt", init(target_lang="en"), "unsupported_direction"),
        ("/mt", init(protocol_version=2), "bad_protocol"),
        ("/mt", [UPDATE], "bad_protocol"),
        pytest.param("/mt", init(history=[["a", "b"]] * 65), "bad_protocol", id="65 sentences"),
        pytest.param("/mt", init(history=[["a"]]), "bad_protocol", id="half a pair"),
        pytest.param("/mt", init(context_text=COMMAND), "context", id="command in terms"),
        pytest.param("/mt", init(accepted_target_prefix="x" * 20_001), "bad_protocol", id="prefix"),
        ("/mt", [{"type": "update", "seq": "x"}], "bad_protocol"),
        pytest.param("/mt", [live.INIT, json.dumps(UPDATE | HALF)], "json", id="half"),
    ],
)
def test_abuse_is_refused_with_a_reason_and_leaves_no_trace(
    shared, path, messages, code, monkeypatch
):
    monkeypatch.setattr("alignatt_agent.serve.request_checks.check_contexts", no_commands)
    answer, closed, reason = live.refused(shared, *messages, path=path)
    error = answer.get("error", answer)
    assert (error["code"], closed) == (code, 1009 if code == "message-size" else 1008)
    assert reason
    assert error["message"].startswith(reason[:100])
    assert len(error["message"]) < 2000
    if path in ("/", "/ws"):
        assert error["final"]
    if messages == init(target_lang="fr"):
        assert error["supported"] == ["en-de", "en-zh"]
    assert live.text_of(live.speak(shared)) == live.GERMAN  # its place is free again


@pytest.mark.parametrize(
    ("path", "headers", "code"),
    [
        ("/ws?token=viewer", {}, "token"),
        ("/ws?token=right", {"origin": "http://["}, "origin"),
        ("/mt", {}, "token"),
    ],
)
def test_strangers_are_told_so(tmp_path, path, headers, code):
    with live.client_of(tmp_path, token="right", viewer_token="viewer") as client:
        error, closed, _ = live.refused(client, path=path, headers=headers)
        assert (error["code"], closed) == (code, 1008)
        assert live.text_of(live.speak(client, path="/ws?token=right")) == live.GERMAN
        for query, status in (("", 401), ("token=viewer", 404), ("token=right", 404)):
            assert client.get(f"/transcript?room=x&{query}").status_code == status
        assert client.get("/health?token=viewer").json()["max_speakers"] == 2


@pytest.mark.parametrize(
    ("limits", "query", "host", "words", "token"),
    [
        ({"token": "right", "viewer_token": "viewer"}, "", "a", "requires a token", True),
        ({"token": "right", "viewer_token": "viewer"}, "?token=x", "a", "wrong token", True),
        ({"hosts": ["a"]}, "", "b", "unknown host name 'b'", False),
        ({"hosts": ["a"]}, "?token=right", "b", "unknown host name 'b'", False),
    ],
)
def test_a_page_is_told_why_the_server_refuses_it(tmp_path, limits, query, host, words, token):
    with live.client_of(tmp_path, **limits) as client:
        answer = client.get(f"/health{query}", headers={"host": host}).json()
    assert answer.keys() == {"status", "token", "refused"}  # nothing about the server
    assert (answer["status"], answer["token"]) == ("ok", token)
    assert words in answer["refused"]["message"]


@pytest.mark.parametrize(
    ("token", "query", "speaker", "unused"),
    [
        ("right", "?token=right", True, False),
        ("right\nother", "?token=other", True, False),
        ("right", "?token=viewer", False, False),
        (None, "", True, False),
        (None, "?token=right", True, True),
    ],
)
def test_a_page_is_told_before_the_start_whether_its_token_may_speak(
    tmp_path, token, query, speaker, unused, caplog
):
    with live.client_of(tmp_path, token=token, viewer_token="viewer") as client:
        health = client.get(f"/health{query}").json()
        assert (health["speaker"], health["unused_token"]) == (speaker, unused)
        if not speaker:
            error, closed, _ = live.refused(client, path=f"/ws{query}")
            assert (error["code"], closed) == ("token", 1008)
            assert error["message"].startswith("this is the viewers' token")
    assert "wrong token" not in caplog.text  # it is no guess


async def work(*_):
    """Take longer than a client may be silent."""
    await asyncio.sleep(1.0)


@pytest.mark.parametrize("path", ["/mt", "/ws", OPENAI])
def test_the_work_of_the_server_is_no_silence_of_its_client(tmp_path, path, monkeypatch):
    monkeypatch.setattr(SpeakerStream, "feed", work)
    monkeypatch.setattr(mt._Utterance, "update", lambda *_: time.sleep(1.0) or {"type": "done"})
    audio = base64.b64encode(live.TALK[:3200]).decode()
    first, message, last = {
        "/mt": (live.INIT, UPDATE, UPDATE),
        "/ws": (ours(), live.TALK[:3200], {"type": "stop"}),
        OPENAI: (GERMAN, APPEND | {"audio": audio}, {"type": "session.close"}),
    }[path]
    served = live.client_of(tmp_path, idle_s=0.5)
    with served as client, client.websocket_connect(path) as socket:
        socket.send_json(first)
        for _ in range(2):
            (socket.send_bytes if isinstance(message, bytes) else socket.send_json)(message)
            time.sleep(0.9)  # the next message is there before the work ends
        socket.send_json(last)
        answers = [socket.receive_json()]
        while answers[-1]["type"] not in ("end", "session.closed", "error", "done"):
            answers.append(socket.receive_json())
    assert answers[-1]["type"] != "error", answers[-1]


def test_transcripts_that_are_not_there(shared):
    live.speak(shared, room="talk")
    for query, status, code in (
        ("room=nobody&target=de", 404, "room"),
        ("room=talk&target=de&format=exe", 400, "format"),
    ):
        answer = shared.get(f"/transcript?{query}")
        assert (answer.status_code, answer.json()["error"]) == (status, code)


@pytest.mark.parametrize("gap", [False, True])
@pytest.mark.parametrize(
    ("target", "code"),
    [("it", "target"), ("zh", "target"), ("fr", "target"), ("xx", "language"), ("", "language")],
)
def test_a_target_that_the_talk_has_not_is_not_found(service, client, gap, target, code):
    live.speak(client, room="talk")
    if gap:
        room = service.rooms.find("talk")
        client.portal.call(room.publish, Gap(start=1.0, end=2.0))
    query = f"room=talk&target={target}"
    for path in ("/captions.json?", *(f"/transcript?format={kind}&" for kind in FORMATS)):
        answer = client.get(f"{path}{query}")
        assert (answer.status_code, answer.json()["error"]) == (404, code), path
    assert client.get("/transcript?room=talk&target=de&format=txt").status_code == 200


@pytest.mark.parametrize("messages", [[], [ours()]])
def test_idle_clients_go(tmp_path, messages):
    with live.client_of(tmp_path, max_speakers=1, idle_s=0.4) as client:
        error, closed, _ = live.refused(client, *messages)
        assert (error["code"], closed) == ("idle", 1008)
        assert live.text_of(live.speak(client)) == live.GERMAN


def test_connections_that_say_nothing_give_way(service, client):
    with contextlib.ExitStack() as stack:
        speaker, *silent = (
            stack.enter_context(client.websocket_connect(path))
            for path in ("/ws", *["/mt"] * (service.limits.max_speakers + MOST_WAITING - 1))
        )
        live.start(speaker)
        assert live.text_of(live.speak(client)) == live.GERMAN
        error, closed, _ = live.ended(silent[0])  # the one that was silent longest
        assert (error["code"], closed) == ("idle", 1013)
        live.send(speaker, stop=True)
        assert live.text_of(live.until(speaker, "end")) == live.GERMAN


@pytest.mark.parametrize(("path", "first"), [("/ws", ours()), ("/mt", live.INIT)])
def test_a_speaker_who_says_nothing_gives_way(tmp_path, path, first):
    served = live.client_of(tmp_path, max_speakers=1, silent_s=0.2)
    with served as client, client.websocket_connect(path) as silent:
        silent.send_json(first)
        assert silent.receive_json()["type"] in ("ready", "init_ok")
        assert live.refused(client, ours())[0]["code"] == "busy"
        time.sleep(0.3)
        assert live.refused(client, ours())[0]["code"] == "busy"
        error, closed, _ = live.ended(silent)
        assert (error["code"], closed) == ("idle", 1013)
        assert live.text_of(live.speak(client)) == live.GERMAN
        assert 'refusals_total{reason="busy"} 2.0' in client.get("/metrics").text


def test_each_of_several_tokens_keeps_a_place(tmp_path):
    served = live.client_of(tmp_path, token="one\ntwo")
    with served as client, client.websocket_connect("/ws?token=one") as first:
        live.start(first)
        assert live.refused(client, ours(), path="/ws?token=one")[0]["code"] == "busy"
        assert live.text_of(live.speak(client, path="/ws?token=two")) == live.GERMAN


@pytest.mark.parametrize("path", ["/", "/ws", "/mt", OPENAI])
def test_errors_that_nobody_foresaw(service, client, path, monkeypatch, caplog):
    def fails(*_):
        raise ValueError("at /home/me/secret\n")

    monkeypatch.setattr(service.checks, "languages", fails)
    monkeypatch.setattr(service, "health", fails)
    audio = {"type": "session.input_audio_buffer.append", "audio": ""}
    first = {"/": [{}, b""], "/ws": [ours()], "/mt": [live.INIT], OPENAI: [audio]}[path]
    answer, closed, reason = live.refused(client, *first, path=path)
    error = answer.get("error", answer)
    expected = "the server failed (ValueError): see its log"
    assert (error["code"], closed) == ("internal", 1011)
    assert error["message"] == reason == expected
    client = TestClient(client.app, raise_server_exceptions=False)
    health = client.get("/health")
    assert (health.status_code, health.json()["message"]) == (500, expected)
    assert health.headers["x-content-type-options"] == "nosniff"
    assert not any("\n" in record.getMessage() or record.exc_info for record in caplog.records)


def test_viewers_beyond_the_limit_are_told(tmp_path):
    with live.Running(live.make_service(tmp_path, max_viewers=1)) as server:
        first = live.Viewer(server.port)
        live.wait_until(lambda: server.service.viewers == 1)
        status, headers, body = live.get(server.port, "/events?room=talk")
        assert (status, headers["retry-after"]) == (503, "10")
        assert "limit of 1 viewer reached: try again later" in body
        assert first.status == 200
        assert live.get(server.port, "/events?room=a%20b")[0] == 400
