"""Latency by the clock: simulated exactly, and what the official CA does not show."""

import json
from types import SimpleNamespace

import pytest

from alignatt_agent.evaluation.latency import recorded_times, simulated_times
from alignatt_agent.evaluation.log import parse_log
from tests.evaluation import logs
from tests.fakes import agent as fakes


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """Score the same output of systems of several speeds; a talk of five minutes."""
    root = tmp_path_factory.mktemp("paced")
    lengths = (600,)
    devset = fakes.write_devset(root / "devset", lengths)
    found = {}
    for rtf in (0.9, 1.5):
        log = logs.lines(lengths, computation_s=rtf)
        path = logs.write(root / f"{rtf}" / "log.jsonl", log)
        _, found[rtf] = logs.rescore(path, devset, root / f"out{rtf}")
    return found


def test_faster_than_real_time_equals_the_official_latency(scored):
    scores = scored[0.9]
    assert scores["paced"]["longyaal_ms"] == pytest.approx(scores["longyaal_ca_ms"], abs=0.01)
    assert scores["paced"]["backlog_s"] <= 0.9  # only the last sample waits


def test_slower_than_real_time_grows_by_the_clock_only(scored):
    scores, paced = scored[1.5], scored[1.5]["paced"]
    # 300 chunks of 1.5 s in 300 s: the last one is done 150 s late
    assert scores["longyaal_ca_ms"] == pytest.approx(scores["longyaal_cu_ms"] + 1500, abs=10)
    assert paced["growth_ms_per_min"] == pytest.approx(30_000, rel=0.02)
    assert paced["longyaal_ms"] == pytest.approx(scores["longyaal_cu_ms"] + 76_000, rel=0.05)
    assert paced["backlog_s"] == pytest.approx(150, abs=1)
    assert paced["p50_ms"] < paced["p95_ms"] < paced["p99_ms"] < 155_000


class Clock(SimpleNamespace):
    """Takes the place of the module ``time``: it only moves when somebody sleeps or computes."""

    def monotonic(self):
        return self.now

    time = monotonic

    def sleep(self, seconds):
        self.now += seconds


@pytest.mark.parametrize("slow", [0.02, 0.3], ids=["fast", "slower than real time"])
def test_real_clock_agrees_with_the_simulated_one(capsys, tmp_path, monkeypatch, slow):
    config = fakes.write_config(
        tmp_path, chunk_ms=200, speech={"hold_back_ms": 0, "min_start_s": 0.5}
    )
    devset = fakes.write_devset(tmp_path / "devset", (6,))
    clock = Clock(now=1000.0)
    monkeypatch.setattr("alignatt_agent.evaluation.harness.time", clock)
    monkeypatch.setattr("simulstream.server.message_processor.time", clock)
    inner = fakes.FakeRecognizer.transcribe

    def transcribe(self, audio, language, context="", expected=""):
        clock.sleep(slow)
        return inner(self, audio, language, context, expected)

    monkeypatch.setattr(fakes.FakeRecognizer, "transcribe", transcribe)
    arguments = ["--agent", "tests.fakes.agent.FakeAgent", "--config", config, "--target", "de"]
    arguments += ["--devset", devset, "--paced", "--output", tmp_path / "out"]
    assert fakes.evaluate([*map(str, arguments)]) == 0
    printed = capsys.readouterr().out
    folder = tmp_path / "out" / "de"
    for text in (printed, (tmp_path / "out" / "report.md").read_text()):
        assert ("too slow for a live stream" in text) == (slow > 0.2)
    scores = json.loads((folder / "scores.json").read_text())
    paced = scores["paced"]
    assert paced["clock"] == "real"
    steps = parse_log(folder / "metrics.jsonl").talks[0].chunks
    # 16 chunks, the first two before anything is transcribed, and the last sample on its own
    times = recorded_times(folder / "paced.jsonl")["talk0"]
    assert times == pytest.approx(simulated_times(steps), abs=1e-6)
    assert times[:3] == pytest.approx([0.2, 0.4, 0.6 + slow])
    assert times[-1] == pytest.approx(max(3.0, 0.6 + 12 * slow) + 2 * slow, abs=0.001)
    assert (paced["backlog_s"] > 0.2) == (slow > 0.2)
    assert "audio by the clock" in scores["signature"]["latency"]
