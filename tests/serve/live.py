"""A live server on fake engines, and clients for it."""

import asyncio
import contextlib
import functools
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import numpy as np
import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from websockets.sync.client import connect

from alignatt_agent.config.agent_config import load_config
from alignatt_agent.config.resolved import resolve
from alignatt_agent.serve.access import Limits
from alignatt_agent.serve.app import create_app
from alignatt_agent.serve.engines import SharedEngines
from alignatt_agent.serve.server import Server, listen
from alignatt_agent.serve.service import Service
from alignatt_agent.types import EngineError
from tests.fakes import agent as fakes

WAIT_S = 30


class FakePool(SharedEngines):
    """Engines that can be killed."""

    def __init__(self, resolved, runtime=None):
        super().__init__(resolved, fakes.FakeRuntime())
        self.loads, self.broken = 0, False
        self.loading = threading.Event()
        self.loading.set()

    def load(self):
        self.loading.wait(WAIT_S)
        self.loads += 1
        if self.broken:
            raise EngineError("asr model fake: no memory")
        super().load()

    def kill(self):
        self._engines.translation.fail = self._runtime.dead = True


def resolved(folder, hold_back_ms=0):
    """Return a configuration for fake engines."""
    path = fakes.write_config(folder, speech={"hold_back_ms": hold_back_ms})
    return resolve(load_config(str(path)))


def make_service(folder, hold_back_ms=0, **limits):
    """Return a service on loaded fake engines; words are certain after so many milliseconds."""
    engines = FakePool(resolved(folder, hold_back_ms))
    engines.load()
    return Service(engines, Limits(**limits))


def client_of(folder, **options):
    """Return a client for the application of such a service."""
    return TestClient(create_app(make_service(folder, **options)))


def pcm(samples):
    return np.round(np.asarray(samples) * 32768).astype("<i2").tobytes()


def pieces(data, size=3200):
    return [data[i : i + size] for i in range(0, len(data), size)]


def german(words):
    return " ".join(fakes.translated(fakes.word(k), False) for k in range(words))


def text_of(messages, target="de"):
    said = [m["units"] for m in messages if m["type"] == "said" and m["target"] == target]
    return "".join(unit for units in said for unit, *_ in units).lstrip()


def events(room):
    """Return the messages that a room keeps."""
    return [message.model_dump(mode="json") for message in room.messages()]


WORDS = 14
TALK = pcm(fakes.talk(WORDS))
ENGLISH = " ".join(map(fakes.word, range(WORDS)))
GERMAN = german(WORDS)
CHINESE = "".join(fakes.translated(fakes.word(k), True) for k in range(WORDS))
INIT = {"type": "init", "protocol_version": 1, "source_lang": "en", "target_lang": "de"}


def start(socket, **changes):
    socket.send_json({"type": "start", "targets": ["de"], **changes})
    return socket.receive_json()


def until(socket, kind):
    """Return the messages up to the first of a kind."""
    found = [socket.receive_json()]
    while found[-1]["type"] != kind:
        found.append(socket.receive_json())
    return found


def send(socket, data=TALK, stop=False):
    """Send audio in pieces of 100 ms."""
    for piece in pieces(data):
        socket.send_bytes(piece)
    if stop:
        socket.send_json({"type": "stop"})


def speak(client, data=TALK, path="/ws", **changes):
    """Send a talk and stop; returns all messages."""
    with client.websocket_connect(path) as socket:
        found = [start(socket, **changes)]
        send(socket, data, stop=True)
        return found + until(socket, "end")


def ended(socket):
    """Return the error at the end of a connection, the close code and its reason."""
    error = until(socket, "error")[-1]
    with pytest.raises(WebSocketDisconnect) as closed:
        while True:
            socket.receive_json()
    return error, closed.value.code, closed.value.reason


def refused(client, *messages, path="/ws", headers=None):
    """Send messages; returns how the connection ended."""
    with client.websocket_connect(path, headers=headers or {}) as socket:
        for message in messages:
            ways = {bytes: socket.send_bytes, str: socket.send_text, dict: socket.send_json}
            ways[type(message)](message)
        return ended(socket)


class Running:
    """A server on a free port of this machine, in a thread."""

    def __init__(self, service, port=0):
        self.service = service
        self._socket = listen("127.0.0.1", port)
        self.port = self._socket.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}/"
        self.server = Server(service)
        run, given = self.server.run, ([self._socket],)
        self._thread = threading.Thread(target=run, args=given, daemon=True)

    def __enter__(self):
        self._thread.start()
        wait_until(lambda: self.server.started)
        return self

    def websocket_connect(self, path):
        return RemoteSocket(self.port, path)

    def stop(self, *_):
        self.server.should_exit = True
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()

    __exit__ = stop


def get(port, path):
    """Return status, headers and body."""
    answer = httpx.get(f"http://127.0.0.1:{port}{path}", timeout=WAIT_S, trust_env=False)
    return answer.status_code, answer.headers, answer.text


@contextlib.contextmanager
def serving(log):
    """Run ``alignatt serve`` on the embedded models; yields its process and its address."""
    command = [Path(sys.executable).with_name("alignatt"), "serve", "--config", "micro-low"]
    streams = {"stdout": subprocess.PIPE, "stderr": log.open("w"), "text": True}
    process = subprocess.Popen([*command, "--port", "0"], start_new_session=True, **streams)
    try:
        ready = (re.match(r"(http://\S+) translates en into de, it, zh", x) for x in process.stdout)
        found = next(filter(None, ready), None)
        assert found, log.read_text()[-4000:]
        yield process, found[1]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


class RemoteSocket:
    """Speaks to a server on a port as the sockets of a ``TestClient`` do."""

    def __init__(self, port, path="/ws", **options):
        self._socket = connect(f"ws://127.0.0.1:{port}{path}", proxy=None, **options)

    def __enter__(self):
        return self

    def close(self, *_):
        self._socket.close()

    __exit__ = close

    def send_json(self, message):
        self._socket.send(json.dumps(message))

    def send_bytes(self, data):
        self._socket.send(data)

    def receive_json(self):
        return json.loads(self._socket.recv(timeout=WAIT_S))


class Viewer(threading.Thread):
    """Reads server-sent events until the server ends them."""

    def __init__(self, port, room="talk", **headers):
        super().__init__(daemon=True)
        self.events, self.ids = [], []
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
        self._connection.request("GET", f"/events?room={room}", headers=headers)
        self._socket = self._connection.sock
        self._answer = self._connection.getresponse()
        self.status = self._answer.status
        self.start()

    def run(self):
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            for line in self._answer:
                name, _, value = line.decode().rstrip("\r\n").partition(": ")
                if name == "id":
                    self.ids.append(value)
                if name == "data":
                    self.events.append(json.loads(value))
        self.leave()

    def leave(self):
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def saw(self, kind):
        return any(event["type"] == kind for event in self.events)


def wait_until(condition, wait_s=WAIT_S, pause_s=0.005):
    deadline = time.monotonic() + wait_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(pause_s)


def asynchronous(test):
    """Run a test that is a coroutine."""

    @functools.wraps(test)
    def run(*given, **named):
        asyncio.run(asyncio.wait_for(test(*given, **named), WAIT_S))

    return run
