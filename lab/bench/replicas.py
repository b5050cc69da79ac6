r"""Six speakers on replicas of the engines: what is said, and how fast.

Six pieces of talks are translated one after the other, then all at once on two replicas, then on
one, as fast as they are heard in steps of exactly chunk_ms. What is said has to be the same, the
talks are spread evenly, and a seventh speaker is refused with the reason. Throughput is seconds of
audio per second, all speakers together.

A Ray cluster of this machine alone is started for it, and has to leave no process behind.

Examples:
  the embedded models, 12 GB for two sets of engines:
    python -m lab.bench.replicas --output outputs/replicas.json
  others; --ray, --replicas, --max-speakers and --port are added to the command:
    python -m lab.bench.replicas --output outputs/replicas.json -- \
      alignatt serve --config default-low --ray-gpus 0.5

exit status: 0 all of that is so; 1 it is not, or no answer
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from alignatt_agent.cluster.connection import LOCAL, joined
from lab import commands
from lab.bench.crowd import SPEAKERS, Traces, pieces_of, server, together
from lab.bench.sound import RATE, add_options, recordings
from lab.bench.speakers import Speaker

TOLD_S = 3.0
"""A speaker that is refused knows so soon."""


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = commands.parser("lab.bench.replicas", __doc__)
    add = parser.add_argument
    add("--output", type=Path, required=True, metavar="FILE", help="JSON of all that is measured")
    add("--replicas", type=int, default=2, metavar="N", help="that share six; default %(default)s")
    add("--seconds", type=float, default=20.0, help="of each speaker's piece; default %(default)g")
    text = "how often all speak at once on each server; default %(default)s"
    add("--rounds", type=int, default=2, metavar="N", help=text)
    add_options(parser)
    text = "command that starts a server; default: alignatt serve, micro-high, a CPU per replica"
    add("command", nargs="*", metavar="COMMAND", help=text)
    return parser


def throughput(arguments: argparse.Namespace, traces: Traces) -> dict[str, Any]:
    """Compare what is said alone, on several replicas, and on one; returns all figures."""
    pieces = pieces_of(recordings(arguments.talks), arguments.seconds)
    audio_s = sum(piece.size for piece in pieces) / RATE
    found: dict[str, Any] = {"audio_s": round(audio_s, 1), "rounds": []}
    alone: list[Any] = []
    for replicas in (arguments.replicas, 1):
        with server(arguments, replicas, SPEAKERS // replicas) as port:
            if not alone:
                begin = time.monotonic()
                for piece in pieces:
                    ((speaker,), _) = together(port, [piece], arguments.target)
                    speaker.join()
                    alone.append(speaker.said())
                found["alone_audio_per_s"] = round(audio_s / (time.monotonic() - begin), 2)
                found["units"] = sum(len(units) for said in alone for *_, units in said)
            for _ in range(arguments.rounds):
                begin = time.monotonic()
                speakers, spread = together(port, pieces, arguments.target)
                seventh = Speaker(port, pieces[0], False, targets=[arguments.target])
                refused = seventh.wait("error", TOLD_S)
                for speaker in speakers:
                    speaker.join()
                seconds = time.monotonic() - begin
                pairs = zip(speakers, alone, strict=True)
                row = {
                    "replicas": replicas,
                    "spread": sorted(spread.values()),
                    "same": sum(speaker.said() == said for speaker, said in pairs),
                    "audio_per_s": round(audio_s / seconds, 2),
                    "seventh": refused.message["message"] if refused else "was not refused",
                }
                print(row, flush=True)
                found["rounds"].append(row)
            traces.look()
    many, one = (
        np.mean([row["audio_per_s"] for row in found["rounds"] if (row["replicas"] == 1) == single])
        for single in (False, True)
    )
    found["against_one"] = round(float(many / one), 2)
    found["problems"] = [text for row in found["rounds"] for text in wrong(row)]
    return found


def wrong(row: dict[str, Any]) -> list[str]:
    """Return what is not as it should be when all speak at once."""
    replicas = row["replicas"]
    reason = f"{SPEAKERS} speakers are being translated"
    checks = {
        f"{SPEAKERS - row['same']} talks differ from those alone": row["same"] == SPEAKERS,
        f"talks are spread {row['spread']}": row["spread"] == [SPEAKERS // replicas] * replicas,
        f"the seventh: {row['seventh']}": row["seventh"].startswith(reason),
    }
    return [f"{replicas} replicas: {text}" for text, held in checks.items() if not held]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    arguments = build_parser().parse_args(argv)
    default = ["alignatt", "serve", "--config", "micro-high", "--ray-cpus", "1"]
    arguments.command = arguments.command or default
    traces = Traces()
    with joined(LOCAL):
        import ray

        arguments.address = ray.get_runtime_context().gcs_address
        found = throughput(arguments, traces)
    found["left_behind"] = left = traces.left()
    found["problems"] += [f"left behind: {name}" for name in left]
    about = {**commands.machine(), "command": " ".join(arguments.command)}
    commands.write_json(arguments.output, about | found)
    shown = [(name, value) for name, value in found.items() if name not in ("rounds", "problems")]
    print(commands.table(shown))
    print("\n".join(found["problems"]) or "all as it should be")
    return 1 if found["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
