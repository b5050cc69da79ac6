"""``alignatt serve`` on fake engines: what viewers see, and how it ends."""

import contextlib
import json
import threading
import time

import pytest
from websockets.exceptions import ConnectionClosed

from tests.fakes import agent as fakes
from tests.serve import live


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


@pytest.mark.parametrize(
    ("room", "name"),
    [
        ("talk", 'filename="talk.de.'),
        ("会议室", "filename*=utf-8''%E4%BC%9A%E8%AE%AE%E5%AE%A4.de."),
    ],
)
def test_what_was_said_can_be_taken_along(client, room, name):
    live.speak(client, room=room, targets=["de", "zh"])
    texts = {}
    for kind in ("srt", "vtt", "txt", "jsonl"):
        answer = client.get(f"/transcript?room={room}&target=de&format={kind}")
        assert answer.headers["content-disposition"].rstrip('"') == f"attachment; {name}{kind}"
        assert answer.headers["cache-control"] == "no-store"
        texts[kind] = answer.text
    lines = [json.loads(line) for line in texts.pop("jsonl").splitlines()]
    assert set(lines[0]) == {"target", "text", "start", "end", "emission_time"}
    assert "".join(line["text"] for line in lines) == f" {live.GERMAN}"
    for text in texts.values():
        assert [word for word in text.split() if word.startswith("Wort")] == live.GERMAN.split()
    assert texts["vtt"].startswith("WEBVTT\n")
    assert " " not in client.get(f"/transcript?room={room}&target=zh&format=txt").text


DECOMPOSED = "cafe\u0301"


@pytest.mark.parametrize("room", ["caf\u00e9", DECOMPOSED])
def test_a_letter_in_a_room_name_is_the_same_in_both_forms(client, room):
    ready, *_ = live.speak(client, room=room)
    assert ready["room"] == "caf\u00e9"
    for name in ("caf\u00e9", DECOMPOSED):
        query = {"room": name, "target": "de", "format": "txt"}
        assert client.get("/transcript", params=query).text.split() == live.GERMAN.split()
    error, _, _ = live.refused(client, {"type": "start", "targets": ["de"], "room": "\u0301e"})
    assert error["code"] == "room"


@pytest.mark.parametrize(
    ("tag", "code"),
    [
        ("DE", "de"),
        ("de-AT", "de"),
        ("de_DE", "de"),
        ("de-Latn-CH-1996", "de"),
        ("German", "de"),
        ("zh-Hans", "zh"),
        ("ZH_cn", "zh"),
        ("zh-TW", "zh-Hant"),
    ],
)
def test_viewers_ask_for_a_language_in_any_form(client, tag, code):
    live.speak(client, room="talk", targets=["de", "zh"])
    for lines in ("", "&lines=all"):
        answer = client.get(f"/captions?room=talk&target={tag}{lines}&token=t")
        assert answer.status_code == 200
        assert str(answer.url).endswith(f"/captions?room=talk&target={code}{lines}&token=t")
        (redirect,) = answer.history
        assert redirect.headers["location"].startswith("captions?")  # also behind a proxy's path
    for path in ("/captions.json?", "/transcript?format=srt&"):
        status = client.get(f"{path}room=talk&target={tag}").status_code
        assert status == (404 if code == "zh-Hant" else 200)


@pytest.mark.parametrize("tag", ["xx", "d!", "_", "%00", "x" * 200])
def test_viewers_who_ask_for_no_language_get_an_answer(client, tag):
    answer = client.get(f"/captions?room=talk&target={tag}&lines=all")
    assert str(answer.url).endswith("/captions?room=talk&lines=all")  # they choose one
    answer = client.get(f"/captions?room=talk&target={tag}")
    assert (answer.status_code, answer.json()["error"]) == (404, "language")
    assert "expected one of de, zh, en" in answer.json()["message"]


def test_viewers_see_the_same_whenever_they_come(server):
    early = live.Viewer(server.port)
    with live.RemoteSocket(server.port) as socket:
        live.start(socket, room="talk")
        live.send(socket, live.TALK[: len(live.TALK) // 2])
        live.wait_until(lambda: early.saw("said"))
        late = live.Viewer(server.port)
        back = live.Viewer(server.port, **{"Last-Event-ID": early.ids[0]})
        live.send(socket, live.TALK[len(live.TALK) // 2 :], stop=True)
        live.until(socket, "end")
    for viewer in (early, late, back):
        live.wait_until(lambda viewer=viewer: viewer.saw("end"))
    assert live.text_of(early.events) == live.GERMAN
    assert late.events == early.events
    assert back.events == early.events[1:]
    assert "session" not in json.dumps(early.events)
    assert {event["type"] for event in early.events} == {"ready", "said", "end"}


def test_a_stop_of_the_server_says_what_was_heard(server):
    """Though the speaker goes on speaking, and reads the last words when all is over.

    A connection that broke would take them along.
    """
    viewer = live.Viewer(server.port)
    with live.RemoteSocket(server.port, max_queue=1) as socket:  # reads when it is asked to
        live.start(socket, room="talk")

        def talk_on():
            with contextlib.suppress(ConnectionClosed):
                for piece in live.pieces(live.pcm(fakes.talk(600))):
                    socket.send_bytes(piece)

        talking = threading.Thread(target=talk_on)
        talking.start()
        live.wait_until(lambda: viewer.saw("said"))
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        live.wait_until(lambda: not viewer.is_alive())  # all is said
        time.sleep(0.5)
        found = live.until(socket, "error")
        assert found[-1]["code"] == "closing"
        stopping.join()
        talking.join()
    said = live.text_of(found)
    assert len(said.split()) > 3
    heard = [message["audio_s"] for message in found if message["type"] == "status"]
    last = [unit for message in found if message["type"] == "said" for unit in message["units"]][-1]
    assert heard[-1] - last[2] < 1  # the end of what was heard was said, too
    assert live.text_of(viewer.events) == said
    assert viewer.events[-1]["code"] == "closing"


def test_streams_outlive_their_engines_and_nothing_is_lost(client, service):
    engines = service.engines
    with client.websocket_connect("/ws") as one, client.websocket_connect("/ws") as silent:
        live.start(one, room="talk", live=False)
        live.start(silent)
        live.send(one, live.TALK[: len(live.TALK) // 2])
        found = live.until(one, "said")
        engines.loading.clear()
        engines.kill()
        live.send(one, live.TALK[len(live.TALK) // 2 :])
        found += live.until(one, "error")
        assert (found[-1]["code"], found[-1]["final"]) == ("engine", False)
        answer = client.get("/health")
        assert (answer.status_code, answer.json()["status"]) == (503, "starting")
        error, closed, _ = live.refused(client, {"type": "start", "targets": ["de"]})
        assert (error["code"], closed) == ("busy", 1013)
        kept = client.get("/transcript?room=talk&target=de&format=txt").text
        assert kept.startswith(live.text_of(found))
        engines.loading.set()
        live.send(one, b"", stop=True)
        found += live.until(one, "end")
        live.send(silent, stop=True)
        assert live.text_of(live.until(silent, "end")) == live.GERMAN
    assert engines.loads == 2
    kinds = [event["type"] for event in live.events(service.rooms.find("talk"))]
    assert kinds.count("error") == 1
    assert live.text_of(found) == live.GERMAN
    assert found[-1] == {"type": "end", "audio_s": live.WORDS / 2}


def test_engines_that_do_not_start_are_tried_again(client, service):
    service.engines.broken = True
    service.engines.kill()
    live.wait_until(lambda: client.get("/health").json()["error"])
    assert client.get("/health").json()["error"] == "asr model fake: no memory"
    service.engines.broken = False
    live.wait_until(lambda: client.get("/health").status_code == 200)
    assert live.text_of(live.speak(client)) == live.GERMAN
