"""Six speakers at once on replicas of the engines, and what is left when they are gone."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

from lab.bench.sound import RATE, Samples
from lab.bench.speakers import Speaker, get, serving

SPEAKERS = 6
START_S = 300.0
"""A replica is there by then, or not at all."""
END_S = 15.0
"""Ray's own processes take some seconds to end."""


def pieces_of(talks: Sequence[Samples], seconds: float) -> list[Samples]:
    """Return a piece for each speaker, from different places of different talks."""
    found, size = [], round(seconds * RATE)
    for number in range(SPEAKERS):
        talk = talks[number % len(talks)]
        start = number // len(talks) * size % max(1, talk.size - size)
        found.append(talk[start : start + size])
    return found


@contextlib.contextmanager
def server(arguments: Namespace, replicas: int, each: int) -> Iterator[int]:
    """Start the server on so many replicas; yields its port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    added = {"--replicas": replicas, "--max-speakers": each, "--port": port}
    options = {"--ray": arguments.address, **added}
    print(f"starting {replicas} x the engines ...", flush=True)
    with serving([*arguments.command, *map(str, sum(options.items(), ()))]):
        yield port


def together(
    port: int, pieces: Sequence[Samples], to: str, clock: bool = False
) -> tuple[list[Speaker], dict[str, int]]:
    """Open a talk for each piece, then let all speak; returns them and how they were spread."""
    speakers = [Speaker(port, piece, clock, targets=[to]) for piece in pieces]
    for speaker in speakers:
        if not speaker.wait("ready", START_S):
            sys.exit(f"a speaker was not taken: {speaker.came[-1:]}")
    spread = talks_on(port)
    for speaker in speakers:
        speaker.speak()
    return speakers, spread


def talks_on(port: int) -> dict[str, int]:
    """Return talks under way by replica."""
    found: dict[str, int] = json.loads(get(port, "/health"))["replicas"]["talks"]
    return found


class Traces:
    """What a run may leave on this machine; made before it."""

    def __init__(self) -> None:
        self._folders = set(_folders())
        self._others = set(psutil.Process().children(recursive=True))
        self._processes: set[psutil.Process] = set()
        self._shared: set[int] = set()
        self._ports: set[int] = set()

    def look(self, port: int) -> None:
        """Note a port, the processes of now, and the shared memory that they use."""
        self._ports.add(port)
        self._processes.update(set(psutil.Process().children(recursive=True)) - self._others)
        for process in self._processes:
            self._shared.update(_mapped(process.pid))

    def left(self) -> dict[str, Any]:
        """Return what is still there, after a while for the processes to end."""
        _, alive = psutil.wait_procs(self._processes, END_S)
        shared = [path for path in Path("/dev/shm").iterdir() if path.stat().st_ino in self._shared]
        return {
            "processes": [" ".join(one.cmdline()) for one in alive],
            "files": sorted(map(str, (*shared, *(set(_folders()) - self._folders)))),
            "ports": list(filter(_listening, self._ports)),
        }


def _listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _folders() -> Iterator[Path]:
    return Path(tempfile.gettempdir()).glob("alignatt-ray-*")


def _mapped(pid: int) -> Iterator[int]:
    """Yield the numbers of files of shared memory that a process uses; their names may change."""
    with contextlib.suppress(OSError):  # it is over
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            if "/dev/shm/" in line:
                yield int(line.split()[4])
