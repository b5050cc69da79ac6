"""Captions that are posted, against stand-ins of the documented forms of YouTube and Zoom."""

import contextlib
import itertools
import shutil
import threading
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR, create_server
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from starlette.testclient import TestClient

from alignatt_agent.config.errors import ConfigError
from alignatt_agent.serve.app import create_app
from alignatt_agent.serve.publish import destination
from alignatt_agent.types import AlignAttError
from tests.serve import live
from tests.serve.live import WORDS, client_of, german, speak, wait_until

CUT = 160_000  # bytes, 5 s: within the second sentence


@pytest.fixture
def platform():
    """Take captions, but not at the first attempt; yields the address and the POSTs."""
    posts = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            posts.append((urlsplit(self.path), self.headers["content-type"], body))
            earlier = [path for path, _, _ in posts if path.path == urlsplit(self.path).path]
            self.send_response(503 if len(earlier) == 1 else 200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as stand_in:
        threading.Thread(target=stand_in.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{stand_in.server_port}", posts
        stand_in.shutdown()


def test_captions_are_posted_in_the_forms_of_both_platforms(tmp_path, platform, caplog):
    address, posts = platform
    given = (
        f"talk:de={address}/youtube?cid=SECRET",
        f"talk:zh={address}/zoom?id=1&ns=SECRET&lang=zh-CN",
    )
    begin = datetime.now(UTC).replace(tzinfo=None)
    with client_of(tmp_path, publish=given) as client:
        speak(client, room="talk", targets=["de", "zh"])
        wait_until(lambda: len(posts) == 2 * (WORDS // 6 + 1) + 2)
    for path, texts in (
        ("/youtube", [german(6), german(12)[len(german(6)) + 1 :], "Wort12 Wort13"]),
        ("/zoom", ["字零字一字二字三字四字五。", "字六字七字八字九字零字一。", "字二字三"]),
    ):
        mine = [post for post in posts if post[0].path == path]
        queries = [parse_qs(url.query) for url, _, _ in mine]
        first = int(queries[0]["seq"][0])
        assert [int(query.pop("seq")[0]) - first for query in queries] == [0, 0, 1, 2]
        assert mine[0] == mine[1]  # the attempt that failed
        assert {kind for _, kind, _ in mine} == {"text/plain; charset=utf-8"}
        bodies = [body.rstrip("\n").split("\n") for _, _, body in mine[1:]]
        assert [lines[-1] for lines in bodies] == texts
        if path == "/zoom":
            assert queries[0] == {"id": ["1"], "ns": ["SECRET"], "lang": ["zh-CN"]}
            continue
        assert queries[0].keys() == {"cid"}
        times = [datetime.fromisoformat(stamp) for stamp, _ in bodies]
        assert times == sorted(set(times))
        assert abs((times[-1] - begin).total_seconds()) < 10
    assert "did not accept a caption (503)" in caplog.text
    assert "SECRET" not in caplog.text


def test_pauses_a_clock_that_jumps_and_a_restart(tmp_path, platform, monkeypatch):
    (address, posts), clock = platform, SimpleNamespace(later=0.0, jump=0.0)
    clock.monotonic = lambda: time.monotonic() + clock.later
    clock.time = lambda: time.time() + clock.later + clock.jump
    for module in ("room", "room_access", "publish"):
        monkeypatch.setattr(f"alignatt_agent.serve.{module}.time", clock)
    httpx.post(f"{address}/youtube", trust_env=False)  # the attempt that fails
    for jump, least in ((3600, 2), (-3600, 5)):
        client = client_of(tmp_path, publish=[f"talk:de={address}/youtube?cid=1"])
        with client, client.websocket_connect("/ws") as socket:
            live.start(socket, room="talk", live=False)
            live.send(socket, live.TALK[:CUT])
            while len(posts) < least:
                time.sleep(0.01)
            clock.later, clock.jump = clock.later + 70, clock.jump + jump
            live.send(socket, live.TALK[CUT:], stop=True)
            live.until(socket, "end")
            wait_until(lambda: posts[-1][2].endswith("Wort12 Wort13\n"))
    numbers = [int(parse_qs(url.query)["seq"][0]) for url, *_ in posts[1:]]
    assert numbers == sorted({*numbers})
    stamps = [datetime.fromisoformat(body.split("\n")[0]) for *_, body in posts[1:]]
    apart = [(later - before).total_seconds() for before, later in itertools.pairwise(stamps)]
    for pause in (apart[1], apart[4]):
        assert 68 < pause < 72


class Nonsense:
    """Answers the first POST requests with given bytes, then takes captions."""

    def __init__(self, answers, port=0):
        self.bodies, self.answers = [], list(answers)
        self._socket = create_server(("127.0.0.1", port))
        self.port = self._socket.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                with client, client.makefile("rb") as file:
                    head = iter(file.readline, b"\r\n")
                    (length,) = [line for line in head if line.lower().startswith(b"content-len")]
                    body = file.read(int(length.split()[1]))
                    if self.answers:
                        client.sendall(self.answers.pop(0))
                    else:
                        self.bodies.append(body.decode().strip())
                        client.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    def close(self):
        self._socket.shutdown(SHUT_RDWR)  # ends ``accept``
        self._socket.close()


NO_CAPTIONS = [
    b"SSH-2.0-proxy\r\n",
    b"HTTP/1.1 2oo OK\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200 + b"\r\n",
    b"",
    b"HTTP/1.1 200 " + b"x" * 70_000 + b"\r\n\r\n",
    b"HTTP/1.1 302 Found\r\nlocation: /login\r\ncontent-length: 0\r\n\r\n",
]
"""A redirect leads to a page that takes no captions, such as the login of a proxy."""


IDS = ["ssh", "status", "headers", "empty", "long", "login"]


@pytest.mark.parametrize("answer", NO_CAPTIONS, ids=IDS)
def test_whatever_a_proxy_answers_captions_are_sent_again(tmp_path, answer, caplog):
    """The speaker is told in the meantime."""
    platform = Nonsense([answer] * 99)
    client = client_of(tmp_path, publish=[f"talk:de={platform.address}/zoom?ns=SECRET"])
    with client, client.websocket_connect("/ws") as socket:
        live.start(socket, room="talk", live=False)
        live.send(socket, live.TALK[:CUT])
        wait_until(lambda: caplog.records)
        live.send(socket, live.TALK[CUT : CUT + 40_000])
        status = live.until(socket, "status")[-1]
        while "problems" not in status:
            status = live.until(socket, "status")[-1]
        (problem,) = status["problems"]
        assert f"127.0.0.1:{platform.port} has not accepted captions (de) since" in problem
        assert "SECRET" not in problem
        platform.answers.clear()
        wait_until(lambda: platform.bodies)
        live.send(socket, live.TALK[CUT + 40_000 :], stop=True)
        *_, status, _ = live.until(socket, "end")
        assert "problems" not in status
        wait_until(lambda: platform.bodies[-1].endswith("Wort12 Wort13"))
    assert " ".join(platform.bodies) == live.GERMAN
    assert "did not accept a caption" in caplog.text
    platform.close()


@pytest.mark.parametrize("posted", [0, 1])
def test_what_was_said_but_not_posted_before_a_crash_is_posted_after_it(
    tmp_path, posted, monkeypatch
):
    """The journal of a server that was killed is what it holds at any moment."""
    monkeypatch.setattr("alignatt_agent.serve.app.STOP_S", 0.1)
    before, copied = tmp_path / "before", tmp_path / "copied"
    down = [b"HTTP/1.1 503 Down\r\ncontent-length: 0\r\n\r\n"] * 99
    first = Nonsense([] if posted else down)
    address = f"talk:de={first.address}/zoom?ns=1"
    service = live.make_service(tmp_path, publish=[address], journal=before)
    with TestClient(create_app(service)) as client, client.websocket_connect("/ws") as socket:
        key = live.start(socket, room="talk", live=False)["session"]
        live.send(socket, live.TALK[:CUT])
        while live.until(socket, "status")[-1]["audio_s"] < 4.2:
            pass
        if posted:
            wait_until(lambda: '"posted"' in next(before.iterdir()).read_text())
        shutil.copytree(before, copied)
        said = live.text_of(live.events(service.rooms.find("talk")))
    assert said.split()[:7] == live.GERMAN.split()[:7]
    first.close()
    second = Nonsense([], first.port)
    client = client_of(tmp_path, publish=[address], journal=copied)
    with client, client.websocket_connect("/ws") as socket:
        wait_until(lambda: " ".join(second.bodies).split()[-1:] == said.split()[-1:])
        live.start(socket, session=key, kept_s=0.0, live=False)
    text = " ".join(second.bodies)
    assert text == (said if not posted else said.removeprefix(f"{german(6)} "))


@pytest.mark.parametrize(
    "text",
    [
        "https://a.example/?cid=1",
        "talk:de=ftp://a.example",
        "talk:klingon=https://a.example",
        "a b:de=https://a.example",
        # Every request with one of these addresses would fail.
        "talk:de=https://",
        "talk:de=https:a.example",
        "talk:de=https://a.example:99999/",
        "talk:de=https://a.example:port/",
        "talk:de=https://[::1/",
        "talk:de=https://a..example/",
        "talk:de=https://user:secret@a.example/",
        "talk:de=https://a.example/a b",
        "talk:de=https://a.example/x\n",
        "talk:de=https://a.example/für",
        "talk:de=https://a.example/?cid=1#top",
    ],
)
def test_a_destination_has_a_room_a_language_and_an_address(text):
    with pytest.raises(AlignAttError) as refused:
        destination(text)
    assert "secret" not in str(refused.value)
    with pytest.raises(ConfigError, match="the language must be one of it, en; got de"):
        destination("talk:de=https://a.example", ["it", "en"])
    for address in ("https://a/?x=1", "http://[::1]:8080/", "https://xn--4ca.example/%C3%BC"):
        assert destination(f"talk:German={address}") == ("talk", "de", address)
