"""A server with 1,024 file descriptors under attack by silence: speaker and viewers are served."""

import contextlib
import multiprocessing
import resource
import select
import socket
import subprocess
import sys
import time

import pytest
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from tests.serve import live

TOKEN = "sixteen-characters-or-more"
SECONDS = 25  # longer than both time limits


@pytest.fixture
def port(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIGNATT_TOKEN", TOKEN)
    fakes = f"ulimit -S -n 1024; exec {sys.executable} -m lab.tests.fake_server {tmp_path}"
    with subprocess.Popen(["sh", "-c", fakes], stdout=subprocess.PIPE, text=True) as server:
        address = server.stdout.readline().strip().rstrip("/")
        yield int(address.rpartition(":")[2])
        server.terminate()


def silent(port):
    return socket.create_connection(("127.0.0.1", port), timeout=1)


def listening(port):
    """Return a WebSocket connection of a client with the token."""
    return connect(f"ws://127.0.0.1:{port}/ws?token={TOKEN}", proxy=None).socket


def attack(port, count, open_one, opened):
    """Hold silent connections; those that the server closes are opened again."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    held, poll = {}, select.poll()
    while True:
        for number, _ in poll.poll(20):
            poll.unregister(number)
            held.pop(number).close()
        with contextlib.suppress(OSError, WebSocketException):
            while len(held) < count:
                found = open_one(port)
                held[found.fileno()] = found
                poll.register(found.fileno(), select.POLLRDHUP | select.POLLHUP)
                opened.value += 1


def test_silence_takes_no_place(port):
    counts = [multiprocessing.Value("i") for _ in range(2)]
    given = zip((1200, 34), (silent, listening), counts, strict=True)
    attacks = [multiprocessing.Process(target=attack, args=(port, *one)) for one in given]
    for one in attacks:
        one.start()
    live.wait_until(lambda: counts[0].value >= 1200)
    waits, until = [], time.monotonic() + SECONDS
    headers = {"authorization": f"Bearer {TOKEN}"}
    while time.monotonic() < until:
        begin, room = time.monotonic(), f"talk{len(waits)}"
        with live.RemoteSocket(port, additional_headers=headers) as speaker:
            assert live.start(speaker, room=room)["type"] == "ready"
            ready = time.monotonic()
            viewer = live.Viewer(port, room, **headers)
            live.wait_until(lambda viewer=viewer: viewer.events)
            seen = time.monotonic()
            live.send(speaker, stop=True)
            assert live.text_of(live.until(speaker, "end")) == live.german(live.WORDS)
            live.wait_until(lambda viewer=viewer: viewer.saw("end"))
        waits.append((ready - begin, seen - ready, time.monotonic() - seen))
        viewer.leave()
    for one in attacks:
        assert one.is_alive()
        one.terminate()
    longest = [round(max(column), 2) for column in zip(*waits, strict=True)]
    print(
        f"{len(waits)} talks; longest s to ready, to a viewer's first event, to the end: {longest}"
    )
    print("connections that the attack opened:", [count.value for count in counts])
    assert max(longest[:2]) < 2
