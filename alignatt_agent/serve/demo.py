"""Demonstrate the embedded models: show captions of a talk in three languages, without a GPU.

Examples:
  serve the pages and play two embedded talks in real time (press Ctrl-C to stop):
    alignatt demo
  print the translation of one talk as fast as this machine can translate it:
    alignatt demo --once

The models translate only a small artificial language. The demo shows that the installation
works, but it does not predict the quality of real models.

exit status: 0 success; 1 failure while running; 2 failure before the start
"""

import argparse
import contextlib
import json
import os
import threading
import time
from collections.abc import Sequence

from alignatt_agent.config.command_line import page
from alignatt_agent.config.resources import find_path
from alignatt_agent.types import SAMPLE_RATE

CONFIG = "micro-low"
TARGETS = ("de", "it", "zh")
TALKS = ("micro_models/talks/talk-a.flac", "micro_models/talks/talk-b.flac")

CHUNK = 1600
"""Number of samples per message (100 ms)."""


def build_parser() -> argparse.ArgumentParser:
    """Build the command-line parser."""
    parser = argparse.ArgumentParser("alignatt demo", **page(__doc__))
    parser.add_argument(
        "--once", action="store_true", help="print the translation of one talk, then exit"
    )
    parser.add_argument("--port", type=int, default=8080, help="server port; default %(default)s")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status."""
    arguments = build_parser().parse_args(argv)
    talks = [str(find_path(talk)) for talk in TALKS]
    if arguments.once:
        from alignatt_agent.live.cli import main as translate

        return translate([talks[0], "--config", CONFIG, "--target", *TARGETS])
    from alignatt_agent.serve.cli import main as serve

    def begin(address: str) -> None:
        threading.Thread(target=_play, args=(address, talks), daemon=True).start()
        print(f"{address}captions?room=demo&target=de shows the captions of two talks", flush=True)

    os.environ.pop("ALIGNATT_TOKEN", None)  # only this machine can reach the server
    return serve(["--config", CONFIG, "--port", str(arguments.port)], begin)


def _play(address: str, talks: Sequence[str]) -> None:
    """Send talks to a room of the server in real time; end early if the server stops."""
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect

    from alignatt_agent.live import sources

    url = f"ws{address.removeprefix('http')}ws"
    start = {"type": "start", "targets": TARGETS, "room": "demo", "new": True}
    with contextlib.suppress(ConnectionClosed, OSError):  # the server has stopped
        for talk in talks:
            with connect(url, proxy=None, max_queue=None) as socket, sources.Source(talk) as audio:
                socket.send(json.dumps(start))
                ready = json.loads(socket.recv())
                # The key of this talk allows the next one in the same room.
                start["session"] = ready.get("session")
                begin = time.monotonic()
                for number, chunk in enumerate(sources.chunks(audio, CHUNK), 1):
                    # A microphone delivers a chunk at its end.
                    due = begin + number * CHUNK / SAMPLE_RATE
                    time.sleep(max(0.0, due - time.monotonic()))
                    socket.send((chunk * 32767).astype("<i2").tobytes())
                socket.send(json.dumps({"type": "stop"}))
                # The loop ends with the connection, after the last words.
                for _ in socket:
                    pass
