"""``alignatt serve`` on fake engines: what viewers see, and how it ends."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
import time

import pytest
from starlette.testclient import TestClient
from websockets.exceptions import ConnectionClosed

from alignatt_agent.serve.app import create_app
from alignatt_agent.serve.stream import SpeakerStream
from tests.serve.live import (
    TALK,
    WORDS,
    FakeLoader,
    RemoteSocket,
    Viewer,
    german,
    make_service,
    pieces,
    refused,
    send,
    speak,
    start,
    text_of,
    until,
    wait_until,
)


def test_pages_hold_everything_and_say_so(client):
    for path in ("/", "/captions"):
        page = client.get(path)
        assert page.status_code == 200
        assert page.headers["content-security-policy"].startswith("default-src 'none'")
        assert "http://" not in page.text
        assert "https://" not in page.text
        for word in page.text.replace('"', " ").split():
            if word.startswith("pages/"):
                answer = client.get(f"/{word}")
                assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-cache")
    assert client.get("/pages/../app.py").status_code == 404


@pytest.mark.parametrize("kind", ["srt", "vtt", "txt", "jsonl"])
def test_what_was_said_can_be_taken_along(client, kind):
    speak(client, room="talk", targets=["de", "zh"])
    answer = client.get(f"/transcript?room=talk&target=de&format={kind}")
    assert answer.headers["content-disposition"] == f'attachment; filename="talk.de.{kind}"'
    words = german(WORDS).split()
    if kind == "jsonl":
        lines = [json.loads(line) for line in answer.text.splitlines()]
        assert [line["text"] for line in lines] == words
        assert set(lines[0]) == {"target", "text", "start", "end", "emission_time"}
    else:
        assert [word for word in answer.text.split() if word.startswith("Wort")] == words
    if kind == "vtt":
        assert answer.text.startswith("WEBVTT\n")
    if kind == "txt":
        chinese = client.get("/transcript?room=talk&target=zh&format=txt").text
        assert " " not in chinese


def test_rooms_of_any_script(client):
    speak(client, room="会议室")
    answer = client.get("/transcript?room=会议室&target=de&format=txt")
    assert answer.headers["content-disposition"].endswith("''%E4%BC%9A%E8%AE%AE%E5%AE%A4.de.txt")
    assert answer.text.split() == german(WORDS).split()


def test_viewers_see_the_same_whenever_they_come(server):
    early = Viewer(server.port)
    with RemoteSocket(server.port) as socket:
        start(socket, room="talk")
        send(socket, TALK[: len(TALK) // 2])
        wait_until(lambda: early.saw("said"))
        late = Viewer(server.port)
        back = Viewer(server.port, **{"Last-Event-ID": early.ids[0]})
        talk = early.ids[0].partition(".")[0]
        odd = Viewer(server.port, **{"Last-Event-ID": f"{talk}.{'9' * 5000}"})
        send(socket, TALK[len(TALK) // 2 :], stop=True)
        until(socket, "end")
    for viewer in (early, late, back, odd):
        wait_until(lambda viewer=viewer: viewer.saw("end"))
    assert text_of(early.events) == german(WORDS)
    assert late.events == odd.events == early.events
    assert back.events == early.events[1:]
    assert "session" not in json.dumps(early.events)
    assert {event["type"] for event in early.events} == {"ready", "said", "end"}


def test_a_speaker_who_lost_the_connection_goes_on(server, service):
    half = len(TALK) // 2
    with RemoteSocket(server.port) as socket:
        ready = start(socket)
        send(socket, TALK[:half])
        first = until(socket, "said")
        last = first[-1]["id"]
    room = service.rooms.find(ready["room"])
    wait_until(lambda: not room.speaking)
    assert list(room.messages())[-1]["code"] == "speaker"  # viewers are told
    with RemoteSocket(server.port) as socket:
        again = start(socket, session=ready["session"], since=last)
        assert (again["resumed"], again["room"]) == (True, ready["room"])
        send(socket, TALK[half:], stop=True)
        second = until(socket, "end")
        assert second[-1]["audio_s"] == WORDS / 2
    # What was heard before the loss was said to its end, though nobody was there to read it.
    _, _, whole = server.get(f"/transcript?room={ready['room']}&target=de&format=txt")
    assert whole.split() == german(WORDS).split()
    assert whole.split() == [*text_of(first).split(), *text_of(second).split()]


@pytest.mark.parametrize(("live", "then"), [(True, (5.7, 0.0)), (False, (3.4, 2.3))])
def test_what_waits_for_a_slow_cascade_is_heard_in_one_step(
    server, service, monkeypatch, live, then
):
    """So lag is bounded by what may wait and one step, however slow; a file keeps its grid."""
    monkeypatch.setattr("alignatt_agent.serve.stream.CATCH_UP_S", 5.0)
    streams = []
    noted = lambda **given: streams.append(SpeakerStream(**given)) or streams[0]  # noqa: E731
    monkeypatch.setattr("alignatt_agent.serve.service.SpeakerStream", noted)
    slow, begin, end = service.engines.engines().translation, int(2.55 * 32_000), int(5.7 * 32_000)
    slow.released.clear()
    with RemoteSocket(server.port) as socket:
        start(socket, live=live)
        socket.send_bytes(TALK[:begin])
        wait_until(slow.entered.is_set)
        send(socket, TALK[begin:end])
        wait_until(lambda: streams[0]._waiting == (end - begin) // 2)
        slow.released.set()
        while (status := until(socket, "status")[-1])["audio_s"] < 2.55:
            pass
        status = until(socket, "status")[-1]
    assert (status["audio_s"], status["behind_s"]) == then
    lag = service.metrics.registry.get_sample_value("alignatt_lag_p95_seconds")
    assert (lag > 0) == live  # a file waits on purpose


def test_fifty_viewers_come_and_go(server, service):
    with RemoteSocket(server.port) as socket:
        start(socket, room="talk")
        viewers = [Viewer(server.port, enough=2 if k % 2 else None) for k in range(50)]
        wait_until(lambda: service.viewers == 50)
        send(socket, stop=True)
        found = until(socket, "end")
    assert text_of(found) == german(WORDS)
    for viewer in viewers[::2]:
        wait_until(lambda viewer=viewer: viewer.saw("end"))
        assert text_of(viewer.events) == german(WORDS)
        viewer.leave()
    speak_again = Viewer(server.port)
    wait_until(lambda: speak_again.saw("end"))
    assert text_of(speak_again.events) == german(WORDS)


def test_a_stop_of_the_server_says_what_was_heard(server):
    """Though the speaker goes on speaking."""
    viewer = Viewer(server.port)
    with RemoteSocket(server.port) as socket:
        start(socket, room="talk")

        def talk_on():
            with contextlib.suppress(ConnectionClosed):
                for piece in itertools.cycle(pieces(TALK)):
                    socket.send_bytes(piece)

        talking = threading.Thread(target=talk_on)
        talking.start()
        wait_until(lambda: viewer.saw("said"))
        server.stop()
        found = until(socket, "error")
        assert found[-1]["code"] == "closing"
        talking.join()
    said = text_of(found)
    assert len(said.split()) > 3
    heard = [message["audio_s"] for message in found if message["type"] == "status"]
    last = [unit for message in found if message["type"] == "said" for unit in message["units"]][-1]
    assert heard[-1] - last[2] < 1  # the end of what was heard was said, too
    wait_until(lambda: not viewer.is_alive())
    assert text_of(viewer.events) == said
    assert viewer.events[-1]["code"] == "closing"


def test_a_stop_of_the_server_waits_for_who_has_not_read_it_yet(server):
    """He speaks on meanwhile: a connection that broke would take the last words along."""
    viewer = Viewer(server.port)
    with RemoteSocket(server.port, max_queue=1) as socket:  # reads when it is asked to
        start(socket, room="talk")
        send(socket)
        wait_until(lambda: viewer.saw("said"))
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        wait_until(lambda: not viewer.is_alive())  # all is said
        for piece in itertools.islice(itertools.cycle(pieces(TALK)), 50):
            socket.send_bytes(piece)
            time.sleep(0.01)
        assert until(socket, "error")[-1]["code"] == "closing"
        stopping.join()


def test_streams_outlive_their_engines_and_nothing_is_lost(tmp_path):
    loader = FakeLoader()
    service = make_service(tmp_path, loader)
    with TestClient(create_app(service)) as client:
        with client.websocket_connect("/ws") as one, client.websocket_connect("/ws") as silent:
            start(one, room="talk", live=False)
            start(silent)
            send(one, TALK[: len(TALK) // 2])
            found = until(one, "said")
            loader.loading.clear()
            loader.kill()
            send(one, TALK[len(TALK) // 2 :])
            found += until(one, "error")
            assert (found[-1]["code"], found[-1]["final"]) == ("engine", False)
            answer = client.get("/health")
            assert (answer.status_code, answer.json()["status"]) == (503, "starting")
            error, closed, _ = refused(client, {"type": "start", "targets": ["de"]})
            assert (error["code"], closed) == ("busy", 1013)
            kept = client.get("/transcript?room=talk&target=de&format=txt").text
            assert kept.startswith(text_of(found))
            loader.loading.set()
            send(one, b"", stop=True)
            found += until(one, "end")
            send(silent, stop=True)
            assert text_of(until(silent, "end")) == german(WORDS)
        assert loader.loads == 2
        kinds = [event["type"] for event in service.rooms.find("talk").messages()]
        assert kinds.count("error") == 1
    assert text_of(found) == german(WORDS)
    assert found[-1] == {"type": "end", "audio_s": WORDS / 2}


def test_engines_that_do_not_start_are_tried_again(tmp_path, monkeypatch):
    loader = FakeLoader()
    service = make_service(tmp_path, loader)
    with TestClient(create_app(service)) as client:
        loader.broken = True
        loader.kill()
        wait_until(lambda: client.get("/health").json()["error"])
        assert client.get("/health").json()["error"] == "asr model fake: no memory"
        loader.broken = False
        wait_until(lambda: client.get("/health").status_code == 200)
        assert text_of(speak(client)) == german(WORDS)
