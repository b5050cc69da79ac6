"""The bench of schedules, on fake engines: everything is said under each, and lag is lag."""

from __future__ import annotations

import pytest

from alignatt_agent.config.agent_config import load_config
from alignatt_agent.config.resolved import resolve
from lab.bench import schedules as bench_schedules
from tests.fakes import agent as fakes


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    policy = {"top_k": 2, "normalize": "none", "median_width": 1, "border_margin": 0, "drafts": 1}
    path = fakes.write_config(tmp_path_factory.mktemp("config"), policy=policy, chunk_ms=100)
    resolved = resolve(load_config(str(path)), ["de"])
    job = fakes.talk(6), "de"
    return list(bench_schedules.schedules(resolved, fakes.FakeEngines(), job, (0.3, 1.5)))


def test_every_schedule_says_everything(rows):
    assert [(row["load"], row["schedule"]) for row in rows] == [
        (load, schedule) for load in (0.3, 1.5) for schedule in ("sync", "overlap", "async")
    ]
    assert {row["units"] for row in rows} == {6}


def test_lag_is_measured_from_the_speech(rows):
    for row in rows:
        assert 0 < row["lag_p50_s"] <= row["lag_p95_s"]


def test_slower_than_real_time_falls_behind(rows):
    slow = {row["schedule"]: row for row in rows if row["load"] == 1.5}
    assert slow["sync"]["rtf_in_turn"] > 1
    assert slow["sync"]["growth_s"] > 0


def test_a_slowed_engine_answers_the_same():
    slept = []
    slowed = bench_schedules.Slowed(fakes.FakeRecognizer(), "transcribe", 0.5, slept.append)
    audio = fakes.talk(2)
    assert slowed.transcribe(audio, "en") == fakes.FakeRecognizer().transcribe(audio, "en")
    assert (slept, slowed.calls) == ([0.5], 1)
