"""A talk is continued: after a stop, a stream that failed, and a restart of the server."""

import asyncio
import contextlib
import json
import shutil

import pytest
from starlette.testclient import TestClient
from websockets.exceptions import ConnectionClosedError

from alignatt_agent.config.errors import ConfigError
from alignatt_agent.serve.app import create_app
from alignatt_agent.serve.journal import Journal
from alignatt_agent.serve.messages import Heard, StepError, Tail, Unit
from alignatt_agent.serve.remote import RemoteStream
from alignatt_agent.serve.resuming import state_after
from tests.serve import live

HALF = len(live.TALK) // 2 + 4000  # within a sentence and a word
BOTH = ["de", "en"]
ENGLISH = live.ENGLISH.split()


def text(client, kind="txt"):
    return client.get(f"/transcript?room=talk&target=de&format={kind}").text


def test_a_start_after_a_stop_continues_the_talk(client):
    first = live.speak(client, room="talk")
    key = first[0]["session"]
    again = live.speak(client, session=key, since=first[-2].get("id"))
    assert (again[0]["resumed"], again[0]["audio_s"]) == (True, live.WORDS / 2)
    assert again[-1]["audio_s"] == live.WORDS
    units = [unit for m in again if m["type"] == "said" for unit in m["units"]]
    assert units[0][1] == live.WORDS / 2
    assert text(client).split() == 2 * live.GERMAN.split()


def test_a_waiting_speaker_does_not_take_the_room_when_the_talk_stops(tmp_path):
    journal = tmp_path / "journal"
    second = {"type": "start", "targets": ["zh"], "room": "talk", "title": "Second"}
    with live.Running(live.make_service(tmp_path, journal=journal)) as server:
        with live.RemoteSocket(server.port) as first:
            live.start(first, room="talk", title="First")
            live.send(first, live.TALK[:HALF])
            with (
                pytest.raises(ConnectionClosedError) as closed,
                live.RemoteSocket(server.port) as waiting,
            ):
                waiting.send_json(second)
                error = waiting.receive_json()
                assert (error["code"], error["final"]) == ("room-taken", True)
                waiting.receive_json()
            assert closed.value.rcvd.code == 1008  # clients do not try again
            live.send(first, live.TALK[HALF:], stop=True)
            live.until(first, "end")
        viewer = live.Viewer(server.port)
        live.wait_until(lambda: viewer.saw("end"))
        assert live.text_of(viewer.events) == live.GERMAN
        name = viewer.ids[0].partition(".")[0]
        # The next speaker begins on purpose; the finished talk can still be read and saved.
        ready, *_ = live.speak(server, **{**second, "type": "start"})
        (earlier,) = ready["earlier"]
        assert earlier == {"talk": name, "title": "First", "targets": ["de"]}
        live.wait_until(lambda: viewer.events[-1]["audio_s"] and len(viewer.ids) > 4)
    again = live.make_service(tmp_path, journal=journal)
    for service in (server.service, again):
        with TestClient(create_app(service)) as client:
            address = "/transcript?room=talk&format=txt&target="
            assert client.get(f"{address}zh").text.strip() == live.CHINESE
            assert client.get(f"{address}de&talk={name}").text.split() == live.GERMAN.split()
            assert client.get(f"{address}de").status_code == 404
            assert client.get(f"{address}zh&talk={name}").status_code == 404
            assert client.get(f"{address}de&talk=other").json()["error"] == "talk"


def test_a_new_talk_needs_the_key_of_the_old_one(client):
    with client.websocket_connect("/ws") as socket:
        key = first_half(socket)[0]["session"]
    error, close, _ = live.refused(client, {"type": "start", "targets": ["de"], "room": "talk"})
    assert (error["code"], close) == ("room-held", 1008)
    assert text(client)
    new = live.speak(client, live.TALK[: len(live.TALK) // 2], session=key, new=True)
    assert (new[0]["resumed"], new[0]["room"], new[0]["audio_s"]) == (False, "talk", 0.0)
    assert new[0]["session"] != key
    assert text(client).split() == live.german(live.WORDS // 2).split()
    # After Stop the room is free for the next speaker.
    assert live.speak(client, room="talk")[0]["session"] not in (key, new[0]["session"])
    assert text(client).split() == live.GERMAN.split()


def first_half(socket, **changes):
    ready = live.start(socket, room="talk", live=False, **changes)
    live.send(socket, live.TALK[:HALF])
    found = [ready]
    while found[-1]["audio_s"] != 3.4:
        found += live.until(socket, "status")
    return ready, found


def broken(client, service):
    """Speak until the engines give up within a sentence; returns the key, and what was said."""
    with client.websocket_connect("/ws") as socket:
        ready, found = first_half(socket)
        service.engines._engines.translation.fail = True
        for piece in live.pieces(live.TALK[HALF:], 32_000)[:3]:
            live.send(socket, piece)
            found += live.until(socket, "error")
        assert found[-1]["final"] or live.until(socket, "error")[-1]["final"]
    service.engines._engines.translation.fail = False
    return ready["session"], found


def go_on(socket, key, kept_s=None, **changes):
    ready = live.start(socket, session=key, kept_s=kept_s, live=False, **changes)
    live.send(socket, live.TALK[round(ready["audio_s"] * 32_000) :], stop=True)
    return [ready, *live.until(socket, "end")]


def resumed(client, *given, **changes):
    with client.websocket_connect("/ws") as socket:
        return go_on(socket, *given, **changes)


@pytest.mark.parametrize("half_open", [False, True])
@pytest.mark.parametrize("kept_s", [0.0, None])
def test_a_word_that_a_lost_connection_cuts_is_said_once(tmp_path, monkeypatch, half_open, kept_s):
    """An old connection that still seems open is ended, and the talk goes on at once."""
    monkeypatch.setattr("alignatt_agent.serve.wires.own.RETURN_S", live.WAIT_S)
    with live.Running(live.make_service(tmp_path, max_speakers=1)) as server:
        old, socket = (live.RemoteSocket(server.port) for _ in range(2))
        with old, socket:
            ready, found = first_half(old, targets=BOTH)  # it has the only place
            if not half_open:
                old.close()
            again, *rest = go_on(socket, ready["session"], kept_s, targets=BOTH)
            if half_open:
                found += live.until(old, "error")
                assert found[-1]["code"] == "elsewhere"
                with pytest.raises(ConnectionClosedError) as closed:
                    old.receive_json()
                assert closed.value.rcvd.code == 1008
        events = live.events(server.service.rooms.find("talk"))
    found += rest
    assert again["resumed"]
    assert not any(event["type"] == "gap" for event in events)
    assert all(event["code"] == "speaker" for event in events if event["type"] == "error")
    if kept_s is None:  # what was heard is translated before the talk goes on
        assert again["audio_s"] > 3.4
        assert live.text_of(events, "en").startswith("word0 word1 word2 word3 word4 word5")
    else:
        assert again["audio_s"] < 3.4
        assert live.text_of(events) == live.text_of(found) == live.GERMAN
        assert live.text_of(events, "en").split() == ENGLISH


@pytest.mark.parametrize("stored", [True, False])
def test_a_restart_in_mid_sentence_loses_nothing(tmp_path, stored):
    """With a journal the sentence stays open; without one the client has the text so far."""
    limits = {"journal": tmp_path / "journal"} if stored else {}
    with live.Running(live.make_service(tmp_path, **limits)) as server:
        with live.RemoteSocket(server.port) as socket:
            ready, found = first_half(socket)
            server.server.should_exit = True
            found += live.until(socket, "error")
        server.stop()
    closing = found[-1]
    assert (closing["code"], closing["final"], closing["kept"]) == ("closing", True, stored)
    assert ("does not store talks" in closing["message"]) != stored
    assert closing["audio_s"] == pytest.approx(HALF / 32_000, abs=0.01)
    assert live.text_of(found) == live.german(7 if stored else 8)  # the eighth word is cut
    last = [message["id"] for message in found if "id" in message][-1]
    changes = {"kept_s": 0.0, "text_s": closing["audio_s"], "room": "talk"}
    with live.Running(live.make_service(tmp_path, **limits)) as server:
        viewer = live.Viewer(server.port)
        with live.RemoteSocket(server.port) as socket:
            again = go_on(socket, ready["session"], **changes, since=last)
        live.wait_until(lambda: viewer.saw("end"))
    assert again[0]["resumed"]
    assert not any(message["type"] == "gap" for message in again)
    if stored:
        assert live.text_of([*found, *again]) == live.text_of(viewer.events) == live.GERMAN
        assert "text_s" not in again[0]
    else:
        assert again[0]["audio_s"] == again[0]["text_s"] == closing["audio_s"]
        assert again[0]["session"] != ready["session"]
        rest = live.text_of(again)
        assert rest == live.text_of(viewer.events)
        assert rest.split()[-6:] == live.GERMAN.split()[-6:]
        assert live.GERMAN.endswith(rest.split(" ", 1)[1])
    assert again[-1]["audio_s"] == pytest.approx(live.WORDS / 2, abs=0.01)


def test_a_lost_talk_does_not_replace_what_was_said_in_its_room_since(client):
    live.speak(client, room="talk")
    start = {"type": "start", "targets": ["de"], "room": "talk", "session": "lost", "text_s": 3.0}
    error, close, _ = live.refused(client, start)
    assert (error["code"], close) == ("session", 1008)
    assert "another talk has begun" in error["message"]
    assert text(client).split() == live.GERMAN.split()
    # Without its text, and with a wish for a new talk, an unknown key is no obstacle.
    assert live.refused(client, {**start, "text_s": None})[0]["code"] == "session"
    ready, *_ = live.speak(client, room="other", session="lost", new=True)
    assert (ready["resumed"], ready["audio_s"]) == (False, 0.0)


def test_a_talk_that_cannot_be_stored_is_not_called_kept(tmp_path):
    journal = tmp_path / "journal"
    running = live.Running(live.make_service(tmp_path, journal=journal))
    with running as server, live.RemoteSocket(server.port) as socket:
        ready = live.start(socket, room="talk", live=False)
        shutil.rmtree(journal)
        live.send(socket, live.TALK[:HALF])
        live.until(socket, "said")
        server.server.should_exit = True
        closing = live.until(socket, "error")[-1]
    assert ready["session"]
    assert (closing["code"], closing["kept"]) == ("closing", False)


def test_a_speaker_who_is_waited_for_gives_way(tmp_path, monkeypatch):
    monkeypatch.setattr("alignatt_agent.serve.wires.own.RETURN_S", live.WAIT_S)
    with live.Running(live.make_service(tmp_path, max_speakers=1)) as server:
        for room, code, then in (
            ("talk", None, lambda: server.service.rooms.find("talk").lost),
            ("other", "busy", lambda: not server.service.health()["speakers"]),
            ("other", None, lambda: True),
        ):
            with live.RemoteSocket(server.port) as socket:
                assert live.start(socket, room=room).get("code") == code
            live.wait_until(then)


@pytest.mark.parametrize("kept_s", [None, 6.5])
def test_a_gap_is_marked_and_times_do_not_shift(client, service, kept_s):
    key, _ = broken(client, service)
    again = resumed(client, key, kept_s, since="")
    (gap,) = [message for message in again if message["type"] == "gap"]
    assert gap["end"] == again[0]["audio_s"] >= (kept_s or 0)
    assert gap["start"] < HALF / 32_000
    assert again[-1]["audio_s"] == live.WORDS / 2
    assert "[…]" in text(client)
    assert "[…]" in text(client, "srt")
    (line,) = [line for line in map(json.loads, text(client, "jsonl").splitlines())
               if line["text"] == " […]"]  # fmt: skip
    assert (line["start"], line["end"]) == (gap["start"], gap["end"])


@pytest.mark.parametrize("torn", ["", '{"type": "said", "tar', "{}"])
def test_a_journal_survives_the_server(tmp_path, torn, caplog):
    """The journal of a server that was killed is what it holds at any moment."""
    before, copied = tmp_path / "before", tmp_path / "copied"
    served = live.client_of(tmp_path, journal=before)
    with served as client, client.websocket_connect("/ws") as socket:
        ready, found = first_half(socket)
        shutil.copytree(before, copied)
    (file,) = copied.glob("*.jsonl")
    assert file.stat().st_mode & 0o77 == 0
    with file.open("a") as journal:
        journal.write(torn)
    service = live.make_service(tmp_path, journal=copied)
    room = service.rooms.find("talk")
    assert live.text_of(live.events(room)) == live.text_of(found)
    last = [message["id"] for message in found if "id" in message][-1]

    async def later():
        return [json.loads(text) async for _, text in room.follow(last)]

    with TestClient(create_app(service)) as client:
        resumed(client, ready["session"], kept_s=0.0, since=last)
        assert text(client).split() == live.GERMAN.split()
    assert live.text_of([*found, *asyncio.run(later())]) == live.GERMAN
    again = live.make_service(tmp_path, journal=copied)
    assert live.text_of(live.events(again.rooms.find("talk"))) == live.GERMAN
    again.rooms.sweep()
    file.write_text(file.read_text().replace('"protocol":2', '"protocol":1'))  # an older server
    assert not live.make_service(tmp_path, journal=copied).rooms.find("talk")
    assert f"skipped {file}" in caplog.text
    assert "protocol Input should be 2" in caplog.text


def test_a_file_that_is_no_journal_is_not_changed(tmp_path, caplog):
    file = tmp_path / "data.jsonl"
    file.write_text('{"text": "Größe"}\n{"text": "no line break at the end"}')
    content = file.read_bytes()
    assert list(Journal(tmp_path).talks()) == []
    assert file.read_bytes() == content
    assert f"skipped {file}" in caplog.text


def test_the_journal_of_a_forgotten_talk_is_removed(tmp_path):
    service = live.make_service(tmp_path, journal=tmp_path / "journal")
    with TestClient(create_app(service)) as client:
        key = live.speak(client, room="talk")[0]["session"]
        live.speak(client, session=key, new=True)
        assert len(list((tmp_path / "journal").iterdir())) == 1
        service.rooms._keep_s = 0.0
        live.wait_until(lambda: not list((tmp_path / "journal").iterdir()))


def test_a_journal_that_cannot_be_written(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="--journal .*: expected a writable folder"):
        Journal(tmp_path / "file")
    service = live.make_service(tmp_path, journal=tmp_path / "journal")
    shutil.rmtree(tmp_path / "journal")
    with TestClient(create_app(service)) as client:
        assert live.text_of(live.speak(client, room="talk")) == live.GERMAN
    assert caplog.text.count("cannot write the journal of a talk") == 1


def heard(audio_s, words=(), closed=()):
    return Heard(audio_s=audio_s, words=words, accessible=0, closed=closed)


def test_an_open_sentence_is_kept_until_it_is_closed():
    unit = Unit("Wort0", 1.0, 2.0, True)
    tail = Tail.at(0.0).model_copy(update={"said": {"de": (unit,)}})
    tail = state_after(tail, [heard(3.0)])  # it was resumed: its words are not recognized yet
    assert tail.said == {"de": (unit,)}
    tail = state_after(tail, [heard(4.0, [["word0", 1.0, 2.0, "new"]])])
    assert (tail.said, tail.start_s) == ({"de": (unit,)}, 0.7)
    closing = heard(5.0, [["word1", 2.2, 3.0, "new"]], [[["word0", 1.0, 2.0]]])
    failed = state_after(tail, [closing, StepError(message="", target=None)])
    assert (failed.said, failed.start_s) == ({"de": (unit,)}, 0.7)
    closed = state_after(tail, [closing])
    assert (closed.said, closed.start_s) == ({"de": ()}, 2.1)
    assert state_after(closed, [heard(60.0)]).start_s == 55.0  # silence is not heard again


def test_a_replica_that_dies_while_a_talk_is_resumed_frees_the_speaker(client, service):
    key, found = broken(client, service)
    assert 0 < len(live.text_of(found).split()) < live.WORDS
    opened = service.engines.open_stream

    @contextlib.asynccontextmanager
    async def on_a_replica(source, targets, context):
        async def replies():
            yield "replica"
            await stream.calls.get()
            raise RuntimeError("killed")

        stream = RemoteStream(lambda error: None)
        listening = asyncio.create_task(stream.listen(replies()))
        yield stream
        await listening

    service.engines.open_stream = on_a_replica
    start = {"type": "start", "targets": ["de"], "session": key, "kept_s": 0.0}
    error, close, _ = live.refused(client, start)
    assert (error["code"], close, service.health()["speakers"]) == ("engine", 1013, 0)
    service.engines.open_stream = opened
    again = resumed(client, key, kept_s=0.0)
    assert again[0]["audio_s"] < HALF / 32_000
    assert text(client).split() == live.GERMAN.split()
    assert again[-1]["audio_s"] == live.WORDS / 2
