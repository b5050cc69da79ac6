"""Speakers on replicas, the script: its speakers on a server of one process, and its verdicts."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile

import numpy as np
import pytest

from lab.tests.test_gpu_scripts import load_script
from tests.fakes import agent as fakes
from tests.serve import live

replicas = load_script("lab/bench/cpu/replicas")
loss = load_script("lab/bench/cpu/loss.py")
crowd = load_script("lab/bench/cpu/crowd.py")
speakers = load_script("lab/bench/cpu/speakers.py")

TALK = np.round(fakes.talk(live.WORDS) * 32768).astype(np.int16)


def test_everybody_says_something_else():
    talks = [np.arange(50 * crowd.RATE), np.arange(50 * crowd.RATE) + 1]
    found = crowd.pieces_of(talks, 10)
    assert {piece.size for piece in found} == {10 * crowd.RATE}
    assert len({int(piece[0]) for piece in found}) == 6


def test_a_speaker_hears_what_was_said_and_when(tmp_path):
    with live.Running(live.make_service(tmp_path, max_speakers=1)) as server:
        first = speakers.Speaker(server.port, TALK, True, targets=["de"])
        assert first.wait("ready", live.WAIT_S)
        second = speakers.Speaker(server.port, TALK, False, targets=["de"])
        assert second.wait("error", live.WAIT_S).message["code"] == "busy"
        first.speak()
        first.join(live.WAIT_S)
        assert first.text() == live.german(live.WORDS).replace(" ", "")
        assert loss.kept(server.port, first, second, "de")
        second.came = first.came
        assert not loss.kept(server.port, first, second, "de")  # it would be there twice
        early, late = (first.lags(*span) for span in ((0, 3.5), (3.5, 60)))
        assert early
        assert late
        assert all(0 <= lag < live.WAIT_S for lag in early + late)


ROUND = {
    "replicas": 2,
    "spread": [3, 3],
    "same": 6,
    "seventh": "6 speakers are being translated: try again later",
}


@pytest.mark.parametrize(
    ("changes", "problems"),
    [
        ({}, []),
        ({"same": 5}, ["2 replicas: 1 talks differ from those alone"]),
        ({"spread": [2, 4]}, ["2 replicas: talks are spread [2, 4]"]),
        ({"seventh": "was not refused"}, ["2 replicas: the seventh: was not refused"]),
    ],
)
def test_what_is_not_as_it_should_be_at_once(changes, problems):
    assert replicas.wrong(ROUND | changes) == problems


def spans(before, after):
    return {"before": {"p95": before}, "after": {"p95": after}}


LOST = {
    "in_peace": spans(0.9, 1.0),
    "lost": 3,
    "told": [1, 1, 1],
    "told_after_s": [0.1, 0.2, 2.9],
    "went_on_after_s": [0.3, 0.3, 0.3],
    "kept": [True, True, True],
    "back_after_s": 6.0,
    "neighbours": spans(0.9, 1.05),
    "neighbours_told": 0,
    "engines_left": 0,
}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, None),
        ({"told": [1, 1], "told_after_s": [0.1, 0.1]}, "not every speaker"),
        ({"told_after_s": [0.1, 0.1, 3.1]}, "not every speaker"),
        ({"told": [1, 2, 1]}, "somebody was told"),
        ({"went_on_after_s": [0.3, 0.3]}, "not all of them went on"),
        ({"kept": [True, False, True]}, "what was said"),
        ({"back_after_s": None}, "no replica came back"),
        ({"neighbours": spans(0.9, 1.2)}, "the others' lag (95 %) is 1.20 times"),
        ({"neighbours_told": 1}, "others were told"),
        ({"engines_left": 3}, "engines of the lost replica"),
    ],
)
def test_what_a_loss_must_not_cost(changes, problem):
    (found,) = loss.wrong([LOST | changes]) or [None]
    assert found == problem or found.startswith(problem)


HOLDS = """
import mmap, sys
with open(sys.argv[1], "r+b") as file, mmap.mmap(file.fileno(), 0):
    print("ready", flush=True)
    input()
"""


def test_what_is_left_behind_is_seen(monkeypatch):
    monkeypatch.setattr(crowd, "END_S", 0.1)
    traces = crowd.Traces()
    with (
        tempfile.NamedTemporaryFile(prefix="alignatt-test-", dir="/dev/shm") as file,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        file.write(b"something")
        file.flush()
        command = [sys.executable, "-c", HOLDS, file.name]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen(command, **pipes) as process:
            assert process.stdout.readline() == "ready\n"
            port = server.getsockname()[1]
            traces.look(port)
            found = traces.left()
            process.communicate("\n")
        assert "input()" in " ".join(found["processes"])
        assert found["files"] == [file.name]
        assert found["ports"] == [port]
        assert traces.left() == {"processes": [], "files": [file.name], "ports": [port]}
    assert traces.left() == {"processes": [], "files": [], "ports": []}
