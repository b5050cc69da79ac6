"""Six speakers at once on replicas of the engines, and what is left when they are gone."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence

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


def together(port: int, pieces: Sequence[Samples], to: str) -> tuple[list[Speaker], dict[str, int]]:
    """Open a talk for each piece, then let all speak; returns them and how they were spread."""
    speakers = [Speaker(port, piece, False, targets=[to]) for piece in pieces]
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
    """The processes that a run started, which have to end with it; made before it."""

    def __init__(self) -> None:
        self._others = set(psutil.Process().children(recursive=True))
        self._seen: set[psutil.Process] = set()

    def look(self) -> None:
        """Note the processes of now."""
        self._seen |= set(psutil.Process().children(recursive=True)) - self._others

    def left(self) -> list[str]:
        """Return the command lines of those that have not ended, after a while."""
        _, alive = psutil.wait_procs(self._seen, END_S)
        return [" ".join(one.cmdline()) for one in alive]
