"""How many speakers a machine holds: lags by the clock, on fake engines."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from alignatt_agent.cascade import open_stream
from alignatt_agent.cascade.stream import Stream
from alignatt_agent.cli import main
from alignatt_agent.config.agent_config import load_config
from alignatt_agent.config.resolved import resolve
from alignatt_agent.doctor import config_checks, speakers
from tests.fakes import agent as fakes


def test_lag_is_measured_from_the_end_of_a_chunk_and_a_backlog_is_seen(tmp_path, monkeypatch):
    """A step takes 1.2 s of a clock of our own; chunks of 1 s come at 1, 2, 2.5 s."""
    engines = fakes.FakeEngines()
    resolved = resolve(load_config(str(fakes.write_config(tmp_path, chunk_ms=1000))), ["de"])
    now = [0.0]

    class Slow(Stream):
        def step(self, chunk):
            now[0] += 1.2
            return super().step(chunk)

    monkeypatch.setattr(open_stream, "Stream", Slow)

    def sleep(seconds):
        now[0] += seconds

    clock = SimpleNamespace(perf_counter=lambda: now[0], sleep=sleep)
    monkeypatch.setattr(speakers, "time", clock)
    job = (fakes.talk(5)[:40_000], "de")
    spoken = speakers.speak(resolved, engines, job, 0.0)
    assert spoken.lags == pytest.approx([1.2, 1.4, 2.1])
    found = speakers.at_once(resolved, [engines], [job], [spoken])
    assert (found["lag_p50_s"], found["kept_up"], found["audio_s_per_s"]) == (1.4, False, 0.54)
    assert (found["streams"], found["identical"]) == (1, 1)
    unpaced = speakers.speak(resolved, engines, job)
    assert (unpaced.units, unpaced.lags) == (spoken.units, [])


def test_the_knee_is_the_last_number_before_the_first_that_is_too_much():
    def rows(*kept):
        return [{"streams": 2**i, "kept_up": good} for i, good in enumerate(kept)]

    assert speakers.knee(rows(True, True, False, True)) == 2
    assert speakers.knee(rows(False, True)) == 0
    assert speakers.knee(rows(True, True)[::-1]) == 2


def test_excerpts_take_talks_and_targets_in_turn():
    jobs = speakers.excerpts(Path("micro_models/devset"), ["de", "it"], 6, 10.0)
    assert [target for _, target in jobs] == ["de", "it"] * 3
    assert {len(audio) for audio, _ in jobs} == {160_000}
    assert len({audio.tobytes() for audio, _ in jobs}) == 6


@pytest.fixture
def doctor(tmp_path, monkeypatch, capsys):
    """Run ``alignatt doctor`` on fake engines; returns its status and its output."""
    ended = []
    monkeypatch.setattr(speakers, "SECONDS", 1.5)
    monkeypatch.setattr("alignatt_agent.doctor.cli.Runtime", fakes.FakeRuntime)
    monkeypatch.setattr(fakes.FakeRuntime, "close", lambda _: ended.append(True))
    for name in ("check_asking", "check_head_sets", "decoder_shape"):
        passed = config_checks.Check("fake", "ok", "")
        monkeypatch.setattr(config_checks, name, lambda *_, passed=passed: passed)
    monkeypatch.setattr(config_checks, "check_head_sets", lambda *_: [])
    config = fakes.write_config(tmp_path)
    devset = fakes.write_devset(tmp_path / "devset")

    def run(*options):
        words = ["--config", config, "--devset", devset, *options]
        status = main(["doctor", *map(str, words)])
        assert ended.pop()
        return status, capsys.readouterr().out

    return run


def test_the_doctor_says_how_many_speakers_the_machine_holds(doctor, monkeypatch):
    status, out = doctor("--speakers", "3", "1")
    assert status == 0
    for count in (1, 3):
        line = rf"\nok +{count} streams +{count} of {count} emit the same output as a single stream"
        assert re.search(line, out)
    assert re.search(r"\nok +speakers +this machine serves 3: 95 % of the chunks of ", out)
    monkeypatch.setattr(speakers, "knee", lambda rows: 0)
    status, out = doctor("--speakers", "1")
    assert status == 0
    assert re.search(r"\nwarn +speakers +this machine serves 0: .*\n +fix: raise chunk_ms", out)


def test_streams_that_change_each_other_fail(doctor, monkeypatch):
    figures = speakers.at_once
    monkeypatch.setattr(speakers, "at_once", lambda *given: figures(*given) | {"identical": 1})
    status, out = doctor("--speakers", "2")
    assert status == 1
    assert re.search(r"\nFAIL +2 streams +1 of 2 emit the same output as a single stream", out)


def test_nothing_is_started_for_no_speakers(doctor, capsys):
    for words in (["--speakers", "0"], ["--speakers", "x"]):
        with pytest.raises((IndexError, SystemExit)):
            doctor(*words)
    assert "expected at least 1 stream" in capsys.readouterr().err
