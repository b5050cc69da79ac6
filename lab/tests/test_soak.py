"""Hours of sound through the live server: the sound, the verdicts, and a minute on fake engines."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from alignatt_agent.speech.waveform import SILENCE_RMS, loudness
from lab.tests.test_gpu_scripts import load_script

soak = load_script("lab/bench/cpu/soak")
sound = load_script("lab/bench/cpu/sound.py")

TALK = np.full(40 * sound.RATE, 3277, np.int16)


def parts_of(seconds, **changes):
    return list(sound.programme([TALK], seconds, **changes))


def test_the_sound_is_what_it_is_called():
    found = parts_of(200)
    assert sum(samples.size for _, samples in found) == 200 * sound.RATE
    assert {kind for kind, _ in found} == set(sound.KINDS)
    for (kind, one), (_, other) in zip(found, parts_of(200), strict=True):
        assert np.array_equal(one, other)
        level = loudness(one.astype(np.float32) / 32768)
        assert (level < SILENCE_RMS) == (kind in sound.QUIET), kind
        assert (np.abs(one.astype(int)).max() >= 32767) == (kind == "clipped")
    assert {kind for kind, _ in parts_of(50, kinds=["speech"])} == {"speech"}


def test_what_was_said_where():
    spans = [("speech", 0, 10), ("silence", 10, 20), ("music", 20, 30), ("speech", 30, 40)]
    units = [("a", 9.9), ("b", 10.4), ("c", 15.0), ("d", 25.0), ("e", 29.7), ("f", 30.1)]
    found = soak.spoken_in(units, spans)
    assert found == {"speech": ["a", "b", "e", "f"], "silence": ["c"], "music": ["d"]}


def rows(sizes, lags):
    return [
        {
            "minute": minute,
            "lag_median_s": lag,
            "memory_mib": {"server": {"rss": size, "uss": size}},
        }
        for minute, (size, lag) in enumerate(zip(sizes, lags, strict=True), 1)
    ]


def test_what_grows_is_seen():
    flat = rows([50, 100, 101, 99, 100], [0.5, 0.1, 0.2, 0.1, 0.1])
    assert soak.growth(flat, 2) == {"server": {"trend": 0.0, "highest": 0.01}}
    assert soak.lag_growth(flat, 2) == 0.0
    grows = rows([50, 100, 100, 103, 105], [0.5, 0.1, 0.1, 1.0, 2.0])
    assert soak.growth(grows, 2) == {"server": {"trend": 0.05, "highest": 0.05}}
    assert soak.lag_growth(grows, 2) == pytest.approx(1.9)


GOOD = {
    "growth": {"server": {"trend": 0.01, "highest": 0.04}},
    "stopped": False,
    "lag_growth_s": 0.1,
    "chunk_ms": 250,
    "said": {"speech": 9, "music": 2},
    "viewer_saw": 9,
    "speaker_saw": 9,
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
def test_what_is_not_as_it_should_be(changes, problem):
    (found,) = soak.problems(GOOD | changes) or [None]
    assert found == problem or found.startswith(problem)


def test_two_minutes_on_fake_engines(tmp_path, capsys):
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
    assert "minute 2: lag" in capsys.readouterr().out
