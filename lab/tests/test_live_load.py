"""Speakers of a live server on fake engines, and the verdicts of soak and replicas."""

from __future__ import annotations

import itertools
import json
import sys
import types

import numpy as np
import pytest

from lab.bench import kills, replicas, soak, speakers, verdict
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
