"""Several targets of one call hear once, and nothing else changes."""

from __future__ import annotations

import json
import time

import pytest

from alignatt_agent.evaluation.hearing import SharedHearing
from alignatt_agent.evaluation.plan import plan
from alignatt_agent.evaluation.trace import read_steps
from tests.fakes import agent as fakes


@pytest.fixture
def heard(monkeypatch):
    """How often the recogniser was asked."""
    calls = []
    inner = fakes.FakeRecognizer.transcribe

    def transcribe(self, audio, language, context="", expected=""):
        calls.append(audio.tobytes())
        return inner(self, audio, language, context, expected)

    monkeypatch.setattr(fakes.FakeRecognizer, "transcribe", transcribe)
    return calls


def lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def emissions(folder):
    return [line["generated_tokens"] for line in lines(folder) if "generated_tokens" in line]


def test_later_targets_recall_what_was_heard(call, heard):
    for target in ("de", "zh"):
        assert call(configs=("low",), targets=(target,), out=f"alone-{target}")[0] == 0
    alone = set(heard)
    assert len(heard) > len(alone) > 5
    heard.clear()
    status, printed, _ = call(configs=("low",), targets=("de", "zh"))
    assert status == 0
    assert len(heard) == len(alone)
    assert set(heard) == alone
    assert "heard once for de zh; its time counts in each" in printed
    scores = {}
    for target in ("de", "zh"):
        together, alone = call.root / "out" / target, call.root / f"alone-{target}" / target
        assert emissions(together) == emissions(alone)
        scores = [json.loads((at / "scores.json").read_text()) for at in (together, alone)]
        for name in ("bleu", "chrf", "longyaal_cu_ms"):
            assert scores[0][name] == scores[1][name]
        assert scores[0]["signature"]["hearing"] == "once for de zh; its time counts in each"
        assert "hearing" not in scores[1]["signature"]


def test_the_time_of_the_hearing_counts_in_every_target(call, monkeypatch):
    inner = fakes.FakeRecognizer.transcribe

    def slow(self, *given):
        time.sleep(0.02)
        return inner(self, *given)

    monkeypatch.setattr(fakes.FakeRecognizer, "transcribe", slow)
    assert call(configs=("low",), targets=("de", "zh"))[0] == 0
    out = call.root / "out"
    german, chinese = (list(read_steps(out / target / "steps.jsonl")) for target in ("de", "zh"))
    logged = [line for line in lines(out / "zh") if "total_audio_processed" in line]
    assert [step.heard for step in chinese] == [step.heard for step in german]
    heard = [step for step in chinese if step.heard.live.words]
    assert len(heard) > 5
    assert all(step.seconds["asr"] >= 0.02 for step in heard)
    assert sum(line["computation_time"] for line in logged) >= 0.02 * len(heard)
    for step in (*german, *chinese):
        assert len(step.times) == len(step.units)


@pytest.mark.parametrize(
    ("targets", "paced", "shares"),
    [(["de", "zh"], False, True), (["de", "zh"], True, False), (["de"], False, False)],
)
def test_single_and_paced_targets_hear_for_themselves(call, targets, paced, shares):
    agent, config = "tests.fakes.agent.FakeAgent", str(call.root / "low.yaml")
    out = call.root / "planned"
    runs = plan(agent, [config], {}, None, targets, call.devset, out, paced)
    assert [run.shares for run in runs] == [shares] * len(targets)


def test_a_memory_gives_back_results_with_their_time():
    now = [0.0]

    def slow():
        now[0] += 2.0
        return "text"

    memory = SharedHearing(lambda: now[0])
    assert memory.recall(b"a", slow) == "text"
    assert (memory.clock(), memory.take_seconds()) == (2.0, 0.0)
    assert memory.recall(b"a", slow) == "text"
    assert memory.recall(b"b", lambda: None) is None
    assert memory.recall(b"b", slow) is None
    assert (now[0], memory.clock()) == (2.0, 4.0)
    assert (memory.take_seconds(), memory.take_seconds()) == (2.0, 0.0)


def test_the_time_of_what_runs_beside_other_work_passes_again():
    now = [0.0]

    def pass_by(seconds=1.5):
        now[0] += seconds
        return "words"

    memory = SharedHearing(lambda: now[0], pass_by)
    for _ in range(2):
        assert memory.recall(b"a", pass_by, beside=True) == "words"
    assert (now[0], memory.clock(), memory.take_seconds()) == (3.0, 3.0, 0.0)
