"""Speakers of a live server on fake engines, and the verdicts of soak and replicas."""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import sys
import time
import types

import numpy as np
import pytest

from alignatt_agent.serve.server import listen
from lab.bench import kills, replicas, soak, speakers, verdict, viewers
from tests.fakes import agent as fakes
from tests.serve import live


def test_two_minutes_of_sound(tmp_path):
    out = tmp_path / "soak.json"
    given = ["--minutes", "2", "--settle", "1", "--talks", tmp_path, "--output", out]
    command = [sys.executable, "-m", "tests.serve.live", tmp_path]
    status = soak.main([str(item) for item in (*given, "--", *command)])
    found = json.loads(out.read_text())
    assert found["said_without_speech"] == {}
    assert found["said"]["speech"] == 120  # one recording
    assert [row["minute"] for row in found["minutes"]] == [1, 2]
    assert found["sound"]["speech"] == 60.0
    assert found["speaker_saw"] == found["viewer_saw"] > 50
    assert status == bool(found["problems"])


def test_a_speaker_notes_what_comes_and_when(tmp_path):
    talk = np.round(fakes.talk(live.WORDS) * 32768).astype(np.int16)
    with live.Running(live.make_service(tmp_path, max_speakers=1)) as server:
        first = speakers.Speaker(server.port, talk, True, targets=["de"])
        assert first.wait("ready", live.WAIT_S)
        second = speakers.Speaker(server.port, talk, False, targets=["de"])
        assert second.wait("error", live.WAIT_S).message["code"] == "busy"
        first.speak()
        first.join(live.WAIT_S)
        assert first.text() == live.german(live.WORDS).replace(" ", "")
        lags = first.lags(0, 60)
        assert lags
        assert all(0 <= lag < live.WAIT_S for lag in lags)


def test_viewers_who_come_and_go_change_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(viewers, "STAY_S", (0.5, 3.0))
    fakes.write_talk(tmp_path / "talk.wav", fakes.talk(6))
    out = tmp_path / "viewers.json"
    given = ["--viewers", "9", "--rounds", "1", "--talks", tmp_path, "--output", out]
    command = [sys.executable, "-m", "tests.serve.live", tmp_path]
    viewers.main([str(item) for item in (*given, "--", *command)])
    found = json.loads(out.read_text())
    alone, many = found["rows"]
    assert found["units"] == 6
    assert (many["identical"], many["differing"], alone["visits"]) == (True, 0, 0)
    assert many["visits"] >= 9
    assert many["events"] > 0


# ------------------------------------------------------------------ kills
def test_kills_come_at_random_moments_that_are_not_too_close():
    found = kills.moments(76, 5, seed=1)
    assert found == kills.moments(76, 5, seed=1) != kills.moments(76, 5, seed=2)
    assert all(b - a >= kills.SPACING_S for a, b in itertools.pairwise(found))
    assert kills.EDGE_S <= found[0] < found[-1] <= 76 - kills.EDGE_S


def test_words_that_a_kill_took_are_deletions():
    assert kills.errors(["One", "two", "three."], ["one", "three"])["deletions"] == 1
    page = types.SimpleNamespace(came=[(1.0, {"type": "said"}), (3.2, {"type": "error"})])
    page.came += [(3.3, {"type": "status"}), (7.5, {"type": "said"})]
    assert kills.noticed(page, 3.0) == {"told_after_s": 0.2, "words_after_s": 4.5}
    assert kills.noticed(page, 8.0) == {"told_after_s": None, "words_after_s": None}


SERVE = """
import sys
from pathlib import Path
from alignatt_agent.serve.server import Server, listen
from tests.serve.live import make_service
service = make_service(Path(sys.argv[1]), journal=Path(sys.argv[1]) / "journal")
taken = listen("127.0.0.1", int(sys.argv[2]))
Server(service, lambda: print("ready", flush=True)).run(sockets=[taken])
"""


def start(folder, port):
    command = [sys.executable, "-c", SERVE, str(folder), str(port)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout.readline() == "ready\n"
    return server


def test_a_server_that_is_killed_twice_loses_and_doubles_nothing(tmp_path):
    with contextlib.closing(listen("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server, words = start(tmp_path, port), 40
    samples = np.round(fakes.talk(words) * 32768).astype(np.int16)
    viewer, page = kills.Viewer(port), kills.Page(port, samples, targets=["de", "zh"])
    try:
        for at in (3.7, 13.1):
            time.sleep(max(0.0, page.begin + at - time.monotonic()))
            server.kill()
            server.wait()
            server = start(tmp_path, port)
        page.join(live.WAIT_S)
        viewer.join(live.WAIT_S)
    finally:
        server.kill()
    for events in (page.messages(), viewer.events):
        assert " ".join(kills.words(events, "de")) == live.german(words)
        chinese = (fakes.translated(fakes.word(k), True) for k in range(words))
        assert "".join(kills.words(events, "zh")) == "".join(chinese)
        assert not any(event["type"] == "gap" for event in events)
        starts = [unit[1] for code, unit in kills.units(events) if code == "de"]
        assert starts == [k / 2 for k in range(words)]  # times do not shift


# ------------------------------------------------------------------ verdicts
def test_units_are_sorted_by_the_sound_that_they_translate():
    spans = [("speech", 0, 10), ("silence", 10, 20), ("music", 20, 30), ("speech", 30, 40)]
    units = [("a", 9.9), ("b", 10.4), ("c", 15.0), ("d", 25.0), ("e", 29.7), ("f", 30.1)]
    found = verdict.spoken_in(units, spans)
    assert found == {"speech": ["a", "b", "e", "f"], "silence": ["c"], "music": ["d"]}


@pytest.mark.parametrize(
    ("sizes", "lags", "trend", "highest", "lag"),
    [
        ([50, 100, 101, 99, 100], [0.5, 0.1, 0.2, 0.1, 0.1], 0.0, 0.01, 0.0),
        ([50, 100, 100, 103, 105], [0.5, 0.1, 0.1, 1.0, 2.0], 0.05, 0.05, 1.9),
    ],
)
def test_growth_after_the_buffers_are_filled(sizes, lags, trend, highest, lag):
    rows = [
        {"minute": minute, "lag_median_s": one, "memory_mib": {"server": {"rss": mib, "uss": mib}}}
        for minute, (mib, one) in enumerate(zip(sizes, lags, strict=True), 1)
    ]
    assert verdict.growth(rows, 2) == {"server": {"trend": trend, "highest": highest}}
    assert verdict.lag_growth(rows, 2) == pytest.approx(lag)


SOAK = {
    "growth": {"server": {"trend": 0.01, "highest": 0.04}},
    "stopped": False,
    "lag_growth_s": 0.1,
    "chunk_ms": 250,
    "said": {"speech": 9, "music": 2},
    "viewer_saw": 9,
    "speaker_saw": 9,
}
CROWD = {
    "replicas": 2,
    "spread": [3, 3],
    "same": 6,
    "seventh": "6 speakers are being translated: try again later",
}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, None),
        ({"growth": {"server": {"trend": 0.021, "highest": 0.021}}}, "server grew by 2.1%"),
        ({"growth": {}}, "too short"),
        ({"lag_growth_s": 0.26}, "the lag grew"),
        ({"said": {"speech": 9, "hiss": 1}}, "said in hiss: 1"),
        ({"said": {"music": 9}}, "nothing was said"),
        ({"viewer_saw": 8}, "a viewer saw 8 of 9"),
        ({"viewer_saw": 8, "stopped": True}, None),
    ],
)
def test_verdict_of_the_soak(changes, problem):
    assert_problem(verdict.problems(SOAK | changes), problem)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, None),
        ({"same": 5}, "2 replicas: 1 talks differ from those alone"),
        ({"spread": [2, 4]}, "2 replicas: talks are spread [2, 4]"),
        ({"seventh": "was not refused"}, "2 replicas: the seventh: was not refused"),
    ],
)
def test_verdict_of_replicas(changes, problem):
    assert_problem(replicas.wrong(CROWD | changes), problem)


def assert_problem(found, problem):
    assert len(found) == bool(problem)
    assert not problem or found[0].startswith(problem)
