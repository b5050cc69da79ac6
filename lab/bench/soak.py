r"""Hours of sound through the live server: memory, lag, and what is said where nobody speaks.

A cycle is a recording, silence, music, a hiss of -66 dBFS, the beginning of the recording 20 dB too
loud for 16 bits, silence, white noise of -30 dBFS, hiss. One speaker feeds it, a viewer looks on.
Audio comes as fast as it is heard, in steps of exactly chunk_ms; lag is what the steps' times give
by the clock of a speaker. With --clock it comes by the clock, and what waits is heard in one step;
--grid keeps the steps, to see what would happen.

Examples:
  two hours through the embedded models, 12 to 20 minutes on two free cores:
    python -m lab.bench.soak --output outputs/soak.json
  ten minutes of speech by the clock, through a server of your own choice:
    python -m lab.bench.soak --minutes 10 --clock --only speech --output outputs/clock.json -- \
      alignatt serve --config micro-low --port 0

Ctrl-C ends it early, with what was measured until then.

exit status: 0 memory and lag are flat and nothing was said in silence; 1 they are not, or no answer
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from websockets.sync.client import ClientConnection, connect

from lab import commands
from lab.bench.kills import Viewer
from lab.bench.sound import KINDS, RATE, SPEECH, add_options, programme, recordings
from lab.bench.speakers import feed, serving
from lab.bench.verdict import growth, lag_growth, problems, spoken_in


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = commands.parser("lab.bench.soak", __doc__)
    add = parser.add_argument
    add("--output", type=Path, required=True, metavar="FILE", help="JSON, renewed every minute")
    add("--minutes", type=float, default=120.0, help="of audio; default %(default)g")
    text = "minutes after which memory and lag have to be flat; default %(default)g"
    add("--settle", type=float, default=40.0, metavar="MINUTES", help=text)
    add_options(parser)
    add("--only", nargs="+", choices=KINDS, default=KINDS, metavar="KIND", help=", ".join(KINDS))
    add("--clock", action="store_true", help="feed by the clock instead of as fast as possible")
    add("--grid", action="store_true", help="with --clock: steps of exactly chunk_ms")
    text = "command that starts a server and prints its address; default: alignatt serve, micro-low"
    add("command", nargs="*", metavar="COMMAND", help=text)
    return parser


# ---------------------------------------------------------------------- the server
def memory(server: psutil.Process) -> dict[str, dict[str, float]]:
    """Return MiB of the server and of all that it started: resident, and its own alone."""
    found = {}
    for process in [server, *server.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            info, name = process.memory_full_info(), f"{process.name()} {process.pid}"
            name = "server" if process == server else name
            found[name] = {"rss": round(info.rss / 2**20, 1), "uss": round(info.uss / 2**20, 1)}
    return found


# ---------------------------------------------------------------------- what it does
class Watch:
    """Makes a row of every minute; ``begin`` is set where the audio comes by the clock."""

    def __init__(self, server: psutil.Process, begin: float | None) -> None:
        self._server, self._begin = server, begin
        self._free = self.audio_s = 0.0
        self._lags: list[float] = []
        self._steps: list[float] = []
        self.rows: list[dict[str, Any]] = []
        self.units: list[tuple[str, float]] = []

    def see(self, message: dict[str, Any]) -> bool:
        """Take a message of the server; returns whether a minute is over."""
        if message["type"] == "error":
            sys.exit(f"the server says: {message['message']}")
        if message["type"] == "said":
            self.units += [(text, (begin + end) / 2) for text, begin, end in message["units"]]
        if message["type"] != "status":
            return False
        self.audio_s = audio_s = message["audio_s"]
        step_s = message["step_ms"] / 1000
        self._free = max(audio_s, self._free) + step_s
        now = self._free if self._begin is None else time.monotonic() - self._begin
        self._lags.append(now - audio_s)
        self._steps.append(step_s)
        if audio_s < 60 * (len(self.rows) + 1):
            return False
        self.rows.append(
            {
                "minute": len(self.rows) + 1,
                "lag_median_s": round(float(np.median(self._lags)), 3),
                "lag_max_s": round(max(self._lags), 3),
                "step_median_s": round(float(np.median(self._steps)), 3),
                "step_max_s": round(max(self._steps), 3),
                "memory_mib": memory(self._server),
            }
        )
        self._lags, self._steps = [], []
        return True


# ---------------------------------------------------------------------- the run
def until_stopped(socket: ClientConnection) -> Iterator[dict[str, Any]]:
    """Yield what the server says until it ends, or Ctrl-C or SIGTERM does."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        yield from map(json.loads, socket)


def run(arguments: argparse.Namespace, server: psutil.Process, port: int) -> dict[str, Any]:
    """Speak and listen; returns all figures."""
    talks = recordings(arguments.talks)
    parts = list(programme(talks, 60 * arguments.minutes, arguments.only))
    sounds = [samples for _, samples in parts]
    ends = (np.cumsum([samples.size for samples in sounds]) / RATE).tolist()
    spans = [
        (kind, begin, end) for (kind, _), begin, end in zip(parts, [0.0, *ends], ends, strict=False)
    ]
    viewer, speaker_saw, started = Viewer(port), 0, time.monotonic()
    # The answer to a ping would wait behind the audio.
    with connect(f"ws://127.0.0.1:{port}/ws", proxy=None, ping_interval=None) as socket:
        live = arguments.clock and not arguments.grid
        start = {"type": "start", "targets": [arguments.target], "room": "talk", "live": live}
        socket.send(json.dumps(start))
        ready = json.loads(socket.recv())
        begin = time.monotonic() if arguments.clock else None
        watch = Watch(server, begin)
        threading.Thread(target=feed, args=(socket, sounds, begin), daemon=True).start()
        for message in until_stopped(socket):
            speaker_saw += message["type"] == "said"
            if watch.see(message):
                row = watch.rows[-1]
                row["seconds"] = round(time.monotonic() - started, 1)
                sizes = " ".join(f"{size['uss']:.1f}" for size in row["memory_mib"].values())
                lag = f"lag {row['lag_median_s']:.2f} to {row['lag_max_s']:.2f} s"
                print(f"minute {row['minute']}: {lag}, own memory {sizes} MiB", flush=True)
                commands.write_json(arguments.output, watch.rows)
    viewer.join(30)
    said = spoken_in(watch.units, spans)
    heard_s: dict[str, float] = defaultdict(float)
    for kind, begin_s, end_s in spans:
        heard_s[kind] += end_s - begin_s
    return {
        **commands.machine(),
        "command": " ".join(arguments.command),
        "sound": {kind: round(seconds, 1) for kind, seconds in heard_s.items()},
        "fed": ("by the clock" if arguments.clock else "as fast as it was heard")
        + (", what waits in one step" if live else f", steps of {ready['chunk_ms']} ms"),
        "chunk_ms": ready["chunk_ms"],
        "seconds": round(time.monotonic() - started, 1),
        "settled_after_min": arguments.settle,
        "growth": growth(watch.rows, arguments.settle),
        "lag_growth_s": lag_growth(watch.rows, arguments.settle),
        "lag_max_s": max((row["lag_max_s"] for row in watch.rows), default=0.0),
        "stopped": round(60 * arguments.minutes - watch.audio_s, 1) > 1,
        "said": {kind: len(units) for kind, units in said.items()},
        "said_without_speech": {
            kind: " ".join(units)[:500] for kind, units in said.items() if kind not in SPEECH
        },
        "speaker_saw": speaker_saw,
        "viewer_saw": sum(event["type"] == "said" for event in viewer.events),
        "minutes": watch.rows,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    arguments = build_parser().parse_args(argv)
    if not arguments.command:
        arguments.command = ["alignatt", "serve", "--config", "micro-low", "--port", "0"]
    with serving(arguments.command) as (server, port):
        found = run(arguments, server, port)
    found["problems"] = problems(found)
    commands.write_json(arguments.output, found)
    shown = ("fed", "sound", "said", "said_without_speech", "growth", "lag_growth_s", "lag_max_s")
    print(commands.table([(name, found[name]) for name in shown]))
    print("\n".join(found["problems"]) or "flat, and quiet where nobody speaks")
    return 1 if found["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
