r"""What speakers and viewers lose when an engine or the server is killed in a talk (kill -9).

An engine dies at five random moments of a recording that is fed by the clock; the server, which
keeps a journal, once. Heard words (captions of the speech) are compared with those of the same
recording without a kill, and with what was spoken. With --grid all steps have the same audio with
and without kills, so the output has to be the same; else what waits is heard in one step.

Examples:
  python -m lab.bench.kills --output outputs/kills.json --kill asr
  python -m lab.bench.kills --output outputs/kills.json --kill server

exit status: 0 no word was lost and no line is missing or doubled; 1 else
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jiwer
import soundfile

from alignatt_agent.types import SAMPLE_RATE
from lab import commands
from lab.bench.speakers import TALKS, Page, Viewer

ROLES = ("asr", "aligner", "translation", "server")
SPACING_S, EDGE_S = 11.0, 6.0


# ---------------------------------------------------------------------- servers
@contextlib.contextmanager
def own_server(config: str) -> Iterator[tuple[int, Callable[[str], None]]]:
    """Serve in this process; yields the port, and what kills an engine by its role."""
    from alignatt_agent.cascade import loading
    from alignatt_agent.config.agent_config import load_config
    from alignatt_agent.config.resolved import resolve
    from alignatt_agent.engine import pool
    from alignatt_agent.serve.access import Limits
    from alignatt_agent.serve.engines import SharedEngines
    from alignatt_agent.serve.server import Server, listen
    from alignatt_agent.serve.service import Service

    engines = SharedEngines(resolve(load_config(config)))
    engines.load()
    taken = listen("127.0.0.1", 0)
    server = Server(Service(engines, Limits()))
    thread = threading.Thread(target=lambda: server.run(sockets=[taken]), daemon=True)
    thread.start()

    def kill(role: str) -> None:
        (process,) = pool._served[role][1]._processes
        os.kill(process.pid, signal.SIGKILL)

    try:
        yield taken.getsockname()[1], kill
    finally:
        server.should_exit = True
        thread.join(30)
        loading.shutdown()


@contextlib.contextmanager
def journaled_server(command: Sequence[str]) -> Iterator[tuple[int, Callable[[str], None]]]:
    """Run a server with a port and a journal; yields the port, and what kills and restarts it."""
    from alignatt_agent.serve.server import listen

    with contextlib.closing(listen("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def start() -> subprocess.Popen[str]:
        own = [*command, "--port", str(port), "--journal", folder]
        server = subprocess.Popen(own, stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert server.stdout is not None
        next(line for line in server.stdout if "http://" in line)
        return server

    def kill(_: str) -> None:
        nonlocal running
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        running = start()

    with tempfile.TemporaryDirectory() as folder:
        running = start()
        try:
            yield port, kill
        finally:
            running.terminate()
            running.wait(60)


# ---------------------------------------------------------------------- what it compares
def units(events: Sequence[dict[str, Any]]) -> list[tuple[str, list[Any]]]:
    """Return the targets and units in the order in which they came."""
    said = (event for event in events if event["type"] == "said")
    return [(event["target"], unit) for event in said for unit in event["units"]]


def words(events: Sequence[dict[str, Any]], target: str = "en") -> list[str]:
    """Return the units of a target."""
    return [unit[0] for code, unit in units(events) if code == target]


def errors(spoken: Sequence[str], heard: Sequence[str]) -> dict[str, Any]:
    """Return the words of ``spoken`` that are not in ``heard``, and so on, without marks."""
    plain = jiwer.Compose([jiwer.ToLowerCase(), jiwer.RemovePunctuation()])
    found = jiwer.process_words(plain(" ".join(spoken)), plain(" ".join(heard)))
    kinds = ("deletions", "insertions", "substitutions")
    (before,), (after,), (parts,) = found.references, found.hypotheses, found.alignments
    places = [
        [
            part.ref_start_idx,
            " ".join(before[part.ref_start_idx : part.ref_end_idx]),
            " ".join(after[part.hyp_start_idx : part.hyp_end_idx]),
        ]
        for part in parts
        if part.type != "equal"
    ]
    return {kind: getattr(found, kind) for kind in kinds} | {"places": places}


def moments(seconds: float, count: int, seed: int) -> list[float]:
    """Return random moments that are not closer to each other than a restart takes."""
    free = seconds - 2 * EDGE_S - (count - 1) * SPACING_S
    numbers = random.Random(seed)
    drawn = sorted(numbers.uniform(0, free) for _ in range(count))
    return [EDGE_S + at + k * SPACING_S for k, at in enumerate(drawn)]


def killed(
    port: int, kill: Callable[[str], None], role: str, talk: Path, seed: int, live: bool
) -> dict[str, Any]:
    """Kill in a talk, and compare it with the same talk without."""
    samples = soundfile.read(talk, dtype="int16")[0]
    spoken = json.loads((talk.parents[1] / "gold" / f"{talk.stem}.json").read_text())
    alone = Page(port, samples, paced=False, room="alone", live=False)
    alone.speak()
    alone.join()
    viewer, page = Viewer(port), Page(port, samples, live=live)
    page.speak()
    rows = []
    for at in moments(samples.size / SAMPLE_RATE, 1 if role == "server" else 5, seed):
        time.sleep(max(0.0, page.begin + at - time.monotonic()))
        before = time.monotonic() - page.begin
        kill(role)
        rows.append({"at_s": round(before, 1)})
    page.join()
    viewer.join(30)
    for row in rows:
        said = (one["audio_s"] - row["at_s"] for one in alone.messages() if one["type"] == "said")
        row |= noticed(page, row["at_s"]) | {"alone_after_s": min(s for s in said if s > 0)}
    whole, other = words(viewer.events), words(alone.messages())
    text = [word for word, *_ in spoken]
    german = words(alone.messages(), "de"), words(viewer.events, "de")
    return {
        "kill": role,
        "talk": talk.stem,
        "kills": rows,
        "load_average": os.getloadavg(),
        "words_spoken": len(text),
        "errors_alone": errors(text, other),
        "errors_killed": errors(text, whole),
        "killed_against_alone": errors(other, whole),
        "gaps_marked": sum(one["type"] == "gap" for one in viewer.events),
        "same_output_as_alone": units(viewer.events) == units(alone.messages()),
        "speaker_and_viewer_agree": units(page.messages()) == units(viewer.events),
        "german_units": [len(one) for one in german],
    }


def noticed(page: Page, at_s: float) -> dict[str, float | None]:
    """Return the seconds after a kill at which the speaker was told, and at which words came."""
    after = [(came, one["type"]) for came, one in page.came if came > at_s]
    told = next((came for came, kind in after if kind == "error"), None)
    again = next((c for c, kind in after if kind == "said" and c > (told or at_s)), None)
    found = {"told_after_s": told, "words_after_s": again}
    return {name: came and round(came - at_s, 2) for name, came in found.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = commands.parser("lab.bench.kills", __doc__)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="JSON")
    parser.add_argument("--kill", choices=ROLES, required=True, help="what dies")
    parser.add_argument("--config", default="micro-low", help="default %(default)s")
    parser.add_argument("--talk", default="talk-a", help="of the embedded dev set")
    parser.add_argument("--grid", action="store_true", help="steps of exactly chunk_ms")
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    given: argparse.Namespace = parser.parse_args(argv)
    alignatt = str(Path(sys.executable).with_name("alignatt"))
    command = [alignatt, "serve", "--config", given.config]
    server = journaled_server(command) if given.kill == "server" else own_server(given.config)
    with server as (port, kill):
        talk = TALKS / f"{given.talk}.wav"
        found = killed(port, kill, given.kill, talk, given.seed, not given.grid)
    print(json.dumps(found, indent=1))
    commands.write_json(given.output, commands.machine() | found)
    lost = found["errors_killed"]["deletions"] - found["errors_alone"]["deletions"]
    return int(lost > 0 or not found["speaker_and_viewer_agree"])


if __name__ == "__main__":
    sys.exit(main())
