"""Speakers of a live server, and the server that they speak to."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psutil
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from lab.bench.sound import RATE, Samples

PIECE = RATE // 10


@contextlib.contextmanager
def serving(command: Sequence[str]) -> Iterator[tuple[psutil.Process, int]]:
    """Start a server; yields its process and port."""
    # In a session of its own: Ctrl-C ends what is fed, and what was measured is written.
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert server.stdout is not None
    try:
        for line in server.stdout:
            if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
                break
        else:
            sys.exit(f"{' '.join(command)} did not start")
        threading.Thread(target=server.stdout.read, daemon=True).start()
        yield psutil.Process(server.pid), int(found.group(1))
    finally:
        server.terminate()
        server.wait(120)


def get(port: int, path: str) -> str:
    """Return what stands at a path."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        connection.request("GET", path)
        return connection.getresponse().read().decode()


def feed(socket: ClientConnection, parts: Iterable[Samples], begin: float | None) -> None:
    """Send everything and stop; by the clock from ``begin`` on."""
    sent = 0
    with contextlib.suppress(ConnectionClosed):
        for samples in parts:
            for start in range(0, samples.size, PIECE):
                piece = samples[start : start + PIECE]
                sent += piece.size
                if begin is not None:
                    time.sleep(max(0.0, begin + sent / RATE - time.monotonic()))
                socket.send(piece.astype("<i2").tobytes())
        socket.send('{"type": "stop"}')


@dataclass(frozen=True, slots=True)
class Came:
    """A message of the server, and when it came."""

    at: float
    message: dict[str, Any]


class Speaker(threading.Thread):
    """Says something to a server, and takes down what comes back."""

    def __init__(self, port: int, samples: Samples, clock: bool, **start: Any) -> None:
        super().__init__(daemon=True)
        self.came: list[Came] = []
        self.begin = 0.0
        self._samples, self._clock = samples, clock
        # The answer to a ping would wait behind the audio.
        self._socket = connect(f"ws://127.0.0.1:{port}/ws", proxy=None, ping_interval=None)
        self._socket.send(json.dumps({"type": "start", "live": clock, **start}))
        self.start()

    def run(self) -> None:
        """Listen until the server ends it."""
        with contextlib.suppress(ConnectionClosed):
            for text in self._socket:
                self.came.append(Came(time.monotonic(), json.loads(text)))

    def wait(self, kind: str, seconds: float) -> Came | None:
        """Return the first message of a kind; ``None`` if none comes in time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if found := next((one for one in self.came if one.message["type"] == kind), None):
                return found
            time.sleep(0.01)
        return None

    def speak(self) -> None:
        """Begin to speak."""
        self.begin = time.monotonic()
        begin = self.begin if self._clock else None
        feeding = (self._socket, [self._samples], begin)
        threading.Thread(target=feed, args=feeding, daemon=True).start()

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return the messages of a kind."""
        return [one.message for one in self.came if one.message["type"] == kind]

    def said(self) -> list[Any]:
        """Return all that was said: when, what, and what it translates."""
        return [(one["target"], one["audio_s"], one["units"]) for one in self.of("said")]

    def text(self) -> str:
        """Return all that was said, without spaces."""
        return "".join(unit[0] for *_, units in self.said() for unit in units)

    def lags(self, begin: float, end: float) -> list[float]:
        """Return seconds from the last sound of each step to its answer, of answers in a span."""
        seen = [(one.at - self.begin, one.message) for one in self.came]
        return [
            at - message["audio_s"]
            for at, message in seen
            if message["type"] == "status" and begin <= at < end
        ]
