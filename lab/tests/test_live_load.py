"""Speakers and viewers of a live server on fake engines: crowds, and a server that is killed."""

from __future__ import annotations

import itertools
import json
import sys
import time
import types

import numpy as np

from lab.bench import kills, viewers
from tests.fakes import agent as fakes
from tests.serve import live


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
    assert 0 <= alone["steps_p50_s"] <= alone["steps_p95_s"] < live.WAIT_S


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
folder, _, port, _, journal = sys.argv[1:]
service = make_service(Path(folder), journal=Path(journal))
taken = listen("127.0.0.1", int(port))
Server(service, lambda: print("http://", flush=True)).run(sockets=[taken])
"""


def test_a_server_that_is_killed_twice_loses_and_doubles_nothing(tmp_path):
    words = 40
    samples = np.round(fakes.talk(words) * 32768).astype(np.int16)
    with kills.journaled_server([sys.executable, "-c", SERVE, str(tmp_path)]) as (port, kill):
        viewer, page = kills.Viewer(port), kills.Page(port, samples, targets=["de", "zh"])
        page.speak()
        for at in (3.7, 13.1):
            time.sleep(max(0.0, page.begin + at - time.monotonic()))
            kill("server")
        page.join(live.WAIT_S)
        viewer.join(live.WAIT_S)
    for events in (page.messages(), viewer.events):
        assert " ".join(kills.words(events, "de")) == live.german(words)
        chinese = (fakes.translated(fakes.word(k), True) for k in range(words))
        assert "".join(kills.words(events, "zh")) == "".join(chinese)
        assert not any(event["type"] == "gap" for event in events)
        starts = [unit[1] for code, unit in kills.units(events) if code == "de"]
        assert starts == [k / 2 for k in range(words)]  # times do not shift
