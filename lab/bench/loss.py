"""A replica killed in mid-talk: what its speakers are told, and what the others notice."""

from __future__ import annotations

import os
import re
import signal
import time
from argparse import Namespace
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np
import psutil

from lab.bench.crowd import SPEAKERS, START_S, Traces, pieces_of, server, together
from lab.bench.sound import Samples, recordings
from lab.bench.speakers import Speaker, get

TOLD_S = 3.0
"""A speaker whose replica is lost has to know so soon."""
SETTLE_S = 3.0
"""The first steps of a talk are its shortest."""
NOISE = 1.1
"""Two runs in peace may differ by so much in lag (95 %)."""


def loss(arguments: Namespace, traces: Traces) -> dict[str, Any]:
    """Let six speak in peace, then with a replica killed; returns what it cost whom."""
    pieces = pieces_of(recordings(arguments.talks), arguments.seconds)
    found: dict[str, Any] = {"seconds": arguments.seconds, "rounds": []}
    with server(arguments, arguments.replicas, SPEAKERS) as port:
        for _ in range(arguments.rounds):
            speakers, _ = together(port, pieces, arguments.target, clock=True)
            for speaker in speakers:
                speaker.join()
            traces.look()
            row = {"in_peace": lags(speakers, arguments.seconds)} | _lost(arguments, port, pieces)
            print(row, flush=True)
            found["rounds"].append(row)
        traces.look()
    found["lag_against_peace"] = lag_ratio(found["rounds"])
    found["problems"] = wrong(found["rounds"])
    return found


def _lost(arguments: Namespace, port: int, pieces: Sequence[Samples]) -> dict[str, Any]:
    """Kill a replica after a third of the time; returns when there are as many again."""
    speakers, spread = together(port, pieces, arguments.target, clock=True)
    pids, victim = replica_pids(), min(spread, key=lambda name: spread[name])
    engines = psutil.Process(pids[victim]).children(recursive=True)
    at = speakers[0].begin + arguments.seconds / 3
    time.sleep(max(0.0, at - time.monotonic()))
    at = time.monotonic()
    os.kill(pids[victim], signal.SIGKILL)
    told: dict[Speaker, float] = {}
    again: dict[Speaker, Speaker] = {}
    ready: list[float] = []
    back = None
    while (passed := time.monotonic() - at) < START_S:
        for speaker, piece in zip(speakers, pieces, strict=True):
            if speaker not in told and (error := speaker.wait("error", 0.01)):
                told[speaker] = error.at - at
                options = {"targets": [arguments.target], "session": speaker.key("session")}
                again[speaker] = Speaker(port, piece[piece.size // 3 :], True, **options)
        for one in again.values():
            if not one.begin and (first := one.wait("ready", 0.01)):
                ready.append(first.at - at)
                one.speak()
        if back is None and len(set(replica_pids()) - {victim}) == arguments.replicas:
            back = round(passed, 1)
        if back and (len(ready) == spread[victim] or len(told) < spread[victim]):
            break
        time.sleep(0.1)
    neighbours = [speaker for speaker in speakers if speaker not in told]
    for one in (*neighbours, *(one for one in again.values() if one.begin)):
        one.join()
    return {
        "spread": sorted(spread.values()),
        "lost": spread[victim],
        "told_after_s": rounded(told.values()),
        "told": [len(speaker.of("error")) for speaker in told],
        "message": next(iter(told)).of("error")[0]["message"] if told else "",
        "went_on_after_s": rounded(ready),
        "kept": [kept(port, old, new, arguments.target) for old, new in again.items()],
        "back_after_s": back,
        "neighbours": lags(neighbours, arguments.seconds),
        "neighbours_told": sum(len(speaker.of("error")) for speaker in neighbours),
        "engines_left": sum(one.is_running() for one in engines),
    }


def replica_pids() -> dict[str, int]:
    """Return the processes of the replicas that work, by their names, as Ray knows them."""
    from ray.serve.context import _get_global_client  # what Ray's dashboard asks

    application = _get_global_client().get_serve_details()["applications"]["alignatt"]
    replicas = application["deployments"]["engines"]["replicas"]
    return {one["replica_id"]: one["pid"] for one in replicas if one["state"] == "RUNNING"}


def lags(speakers: Sequence[Speaker], seconds: float) -> dict[str, Any]:
    """Return the lag before and after the first third of the time, in seconds, of all answers."""
    found = {}
    for name, begin, end in (("before", SETTLE_S, seconds / 3), ("after", seconds / 3, seconds)):
        seen = [lag for speaker in speakers for lag in speaker.lags(begin, end)]
        p50, p95 = rounded(np.percentile(seen, (50, 95))) if seen else (None, None)
        found[name] = {"p50": p50, "p95": p95, "steps": len(seen)}
    return found


def rounded(values: Any) -> list[float]:
    """Return milliseconds of what is in seconds."""
    return [round(float(value), 3) for value in values]


def kept(port: int, old: Speaker, new: Speaker, to: str) -> bool:
    """Whether the room shows what was said before and after."""
    path = f"/transcript?room={old.key('room')}&target={to}&format=txt"
    return re.sub(r"\s", "", get(port, path)) == old.text() + new.text()


def wrong(rounds: Sequence[dict[str, Any]]) -> list[str]:
    """Return what is not as it should be."""
    checks = {
        "not every speaker of the replica was told in time": lambda row: (
            len(row["told"]) == row["lost"] and max(row["told_after_s"]) <= TOLD_S
        ),
        "somebody was told more than once": lambda row: set(row["told"]) == {1},
        "not all of them went on": lambda row: len(row["went_on_after_s"]) == row["lost"],
        "what was said is not all there": lambda row: all(row["kept"]),
        "no replica came back": lambda row: row["back_after_s"] is not None,
        "others were told something": lambda row: not row["neighbours_told"],
        "engines of the lost replica are left": lambda row: not row["engines_left"],
    }
    problems = [text for text, held in checks.items() if not all(map(held, rounds))]
    ratio = lag_ratio(rounds)
    if ratio > NOISE:
        problems.append(f"the others' lag (95 %) is {ratio:.2f} times that in peace")
    return problems


def lag_ratio(rounds: Sequence[dict[str, Any]]) -> float:
    """Return the others' lag (95 %) after the loss against that in peace, median of rounds."""
    pairs = [(row["neighbours"]["after"], row["in_peace"]["after"]) for row in rounds]
    return round(median(lost["p95"] / peace["p95"] for lost, peace in pairs), 2)
