"""Whether viewers who join and leave change what a speaker gets: what is emitted, and how late.

A speaker feeds a recording by the clock, in steps of exactly chunk_ms: alone, then before viewers
who each stay for some seconds and come again; as often as asked. Lag of words is the time from the
end of what a unit translates to its arrival, lag of steps that from the end of a step's audio.

Example:
  python -m lab.bench.viewers --output outputs/viewers.json

exit status: 0 nothing differs, and the words' lag, 95 %, is at most 5 % larger; 1 else
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from alignatt_agent.types import SAMPLE_RATE
from lab import commands
from lab.bench.speakers import TALKS, Page, Samples, serving

STAY_S = 2.0, 20.0
"""Shortest and longest visit."""
START_S = 3.0
"""Time for all to join."""
END = b'{"type": "end"'
MOST_LAG = 1.05
"""Times the lag alone."""


async def visit(port: int, room: str, seconds: float) -> tuple[list[Any], bool]:
    """Look on for so long; returns what was emitted, and if the talk ended."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /events?room={room} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    came, piece = bytearray(), b" "
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while piece and END not in piece:
                piece = await reader.read(65536)
                came += piece
    writer.close()
    lines = came[: came.rfind(b"\n")].splitlines()
    shown = [json.loads(line[6:]) for line in lines if line.startswith(b'data: {"type": "said"')]
    return list(map(emitted, shown)), END in piece


def emitted(message: dict[str, Any]) -> tuple[Any, ...]:
    """Return what a message emits: into which language, when, what, and what it translates."""
    return message["target"], message["audio_s"], message["units"]


def crowd(port: int, room: str, number: int) -> list[list[Any]]:
    """Look on with so many viewers to the end of the talk; returns what each visit saw."""

    async def stay(seed: int) -> list[list[Any]]:
        numbers, saw, ended = random.Random(seed), [], False
        while not ended:
            found, ended = await visit(port, room, numbers.uniform(*STAY_S))
            saw.append(found)
        return saw

    async def everybody() -> list[list[Any]]:
        return list(chain.from_iterable(await asyncio.gather(*map(stay, range(number)))))

    return asyncio.run(everybody())


def talk(port: int, samples: Samples, number: int, room: str, to: str) -> dict[str, Any]:
    """Speak before so many viewers; returns what was said, the lags, and what visits saw."""
    page = Page(port, samples, live=False, room=room, targets=[to])
    assert page.ready.wait(STAY_S[1])
    # Viewers have machines of their own: theirs give way.
    with ProcessPoolExecutor(1, get_context("spawn"), os.nice, (19,)) as pool:
        looking = pool.submit(crowd, port, room, number)
        if number:
            time.sleep(START_S)
        page.speak()
        page.join(samples.size / SAMPLE_RATE + STAY_S[1])
        saw = looking.result(2 * STAY_S[1])
    said = [(at, one) for at, one in page.came if one["type"] == "said"]
    return {
        "said": [emitted(one) for _, one in said],
        "steps": [at - one["audio_s"] for at, one in page.came if one["type"] == "status"],
        "words": [at - end for at, one in said for _, _, end in one["units"]],
        "saw": saw,
    }


def figures(name: str, talks: Sequence[dict[str, Any]], said: list[Any]) -> dict[str, Any]:
    """Return the row of talks alone or before viewers; ``said`` is what one alone emits."""
    lags = {
        f"{kind}_p{share}_s": np.percentile([lag for one in talks for lag in one[kind]], share)
        for kind, share in product(("words", "steps"), (50, 95))
    }
    visits = [saw for one in talks for saw in one["saw"]]
    return {
        "name": name,
        "talks": len(talks),
        "visits": len(visits),
        "events": sum(map(len, visits)),
        "identical": all(one["said"] == said for one in talks),
        "differing": sum(saw != said[: len(saw)] for saw in visits),
        **{name: round(float(lag), 3) for name, lag in lags.items()},
    }


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = commands.parser("lab.bench.viewers", __doc__)
    add = parser.add_argument
    add("--output", type=Path, required=True, metavar="FILE", help="JSON")
    add("--viewers", type=int, default=200, help="at a time; default %(default)s")
    add("--rounds", type=int, default=2, help="talks alone and before viewers; default %(default)s")
    add("--seconds", type=float, default=40.0, help="of each talk; default %(default)g")
    text = "recordings that take turns, 16 kHz mono; default the embedded dev set"
    add("--talks", type=Path, default=TALKS, metavar="FOLDER", help=text)
    add("--target", default="de", metavar="LANGUAGE", help="default %(default)s")
    text = "command that starts a server and prints its address; default: alignatt serve, micro-low"
    add("command", nargs="*", metavar="COMMAND", help=text)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    given = build_parser().parse_args(argv)
    whole, _ = soundfile.read(min(given.talks.glob("*.wav")), dtype="int16")
    samples = whole[: round(given.seconds * SAMPLE_RATE)]
    served = ["alignatt", "serve", "--config", "micro-low", "--port", "0"]
    # A place is free only once the server has noticed who left.
    command = given.command or [*served, "--max-viewers", str(2 * given.viewers)]
    crowds: dict[str, int] = {"alone": 0, "viewers": given.viewers}
    talks: dict[str, list[dict[str, Any]]] = {"alone": [], "viewers": []}
    with serving(command) as port:
        talk(port, samples, 0, "first", given.target)  # the first steps of a server are slower
        for k, (name, number) in product(range(given.rounds), crowds.items()):
            talks[name].append(talk(port, samples, number, f"{name}-{k}", given.target))
    said = talks["alone"][0]["said"]
    alone, many = rows = [figures(name, those, said) for name, those in talks.items()]
    about = {"viewers": given.viewers, "seconds": given.seconds, "load_average": os.getloadavg()}
    about |= {"units": sum(len(units) for *_, units in said)}
    commands.write_json(given.output, {**commands.machine(), **about, "rows": rows})
    print(commands.table([list(row.values()) for row in rows], list(alone)))
    same = alone["identical"] and many["identical"] and not many["differing"]
    return int(not same or many["words_p95_s"] > MOST_LAG * alone["words_p95_s"])


if __name__ == "__main__":
    sys.exit(main())
