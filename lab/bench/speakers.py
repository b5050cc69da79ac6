"""A speaker and a viewer of a live server, and the server that they speak to."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from alignatt_agent.types import SAMPLE_RATE

PIECE = SAMPLE_RATE // 10

TALKS = Path("micro_models/devset/wav")

Samples = npt.NDArray[np.int16]


@contextlib.contextmanager
def serving(command: Sequence[str]) -> Iterator[int]:
    """Start a server; yields its port."""
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert server.stdout is not None
    try:
        for line in server.stdout:
            if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
                break
        else:
            sys.exit(f"{' '.join(command)} did not start")
        threading.Thread(target=server.stdout.read, daemon=True).start()
        yield int(found.group(1))
    finally:
        server.terminate()
        server.wait(120)


class Page(threading.Thread):
    """A speaker like the page: keeps the audio, and continues its talk after a lost connection.

    ``came`` holds the messages of the server, each with its seconds after ``speak``.
    """

    def __init__(self, port: int, samples: Samples, paced: bool = True, **start: Any) -> None:
        super().__init__(daemon=True)
        self.came: list[tuple[float, dict[str, Any]]] = []
        self.begin = time.monotonic()
        self.ready, self._speaks = threading.Event(), threading.Event()
        self._port, self._samples, self._paced = port, samples, paced
        self._start = {"type": "start", "targets": ["de", "en"], "room": "talk", **start}
        self.start()

    def speak(self) -> None:
        """Begin to speak, at the latest when the server is ready."""
        self.begin = time.monotonic()
        self._speaks.set()

    def run(self) -> None:
        """Speak to the end of the recording, and listen to the end of the talk."""
        # The answer to a ping would wait behind the audio.
        address, options = f"ws://127.0.0.1:{self._port}/ws", {"proxy": None, "ping_interval": None}
        while not (self.came and self.came[-1][1]["type"] == "end"):
            lost = contextlib.suppress(OSError, WebSocketException)
            with lost, connect(address, **options) as socket:
                socket.send(json.dumps(self._start))
                for text in socket:
                    self._take(json.loads(text), socket)
            time.sleep(0.2)

    def messages(self) -> list[dict[str, Any]]:
        """Return what came."""
        return [message for _, message in self.came]

    def _take(self, message: dict[str, Any], socket: ClientConnection) -> None:
        self.came.append((time.monotonic() - self.begin, message))
        if message["type"] == "ready":
            self._start |= {"session": message["session"], "kept_s": 0.0}
            self._start.setdefault("since", "")
            position = round(message["audio_s"] * SAMPLE_RATE)
            threading.Thread(target=self._feed, args=(socket, position), daemon=True).start()
            self.ready.set()
        if "id" in message:
            self._start["since"] = message["id"]

    def _feed(self, socket: ClientConnection, position: int) -> None:
        self._speaks.wait()
        with contextlib.suppress(OSError, WebSocketException):
            for begin in range(position, self._samples.size, PIECE):
                piece = self._samples[begin : begin + PIECE]
                if self._paced:
                    due = self.begin + (begin + piece.size) / SAMPLE_RATE
                    time.sleep(max(0.0, due - time.monotonic()))
                socket.send(piece.astype("<i2").tobytes())
            socket.send('{"type": "stop"}')


class Viewer(threading.Thread):
    """Follows the room, and comes back with the last id, as browsers do."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.events: list[dict[str, Any]] = []
        self.last = ""
        self._port = port
        self.start()

    def run(self) -> None:
        """Read to the end of the talk."""
        while not (self.events and self.events[-1]["type"] == "end"):
            connection = http.client.HTTPConnection("127.0.0.1", self._port)
            with contextlib.suppress(OSError, http.client.HTTPException):
                headers = {"Last-Event-ID": self.last}
                connection.request("GET", "/events?room=talk", headers=headers)
                self._read(connection.getresponse())
            time.sleep(0.2)

    def _read(self, answer: http.client.HTTPResponse) -> None:
        for line in answer:
            name, _, value = line.decode().rstrip("\r\n").partition(": ")
            if name == "id":
                self.last = value
            if name == "data":
                self.events.append(json.loads(value))
                if self.events[-1]["type"] == "end":
                    return
