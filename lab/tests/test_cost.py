"""Costs of a chunk: counted in a trace, computed from sizes."""

from __future__ import annotations

import pytest

from alignatt_agent.config.agent_config import ConfigError, load_config
from alignatt_agent.doctor.cli import PREDICTIONS
from alignatt_agent.doctor.model_sizes import sizes_of
from alignatt_agent.evaluation.trace import Recorder
from alignatt_agent.types import SourceView, SpeechUpdate, Step, Transcripts, Word
from alignatt_agent.types.stopwatch import STAGES
from lab.cost import model as cost_model
from lab.cost.__main__ import main, stored, table
from lab.cost.model import DEVICES, KEEPS_UP, rtf, smallest_chunk, stages
from lab.cost.workload import count, read_workload

WORDS = tuple(Word(f"w{n}", n / 2, n / 2 + 0.4) for n in range(12))


def step(audio_s, words=(), settled=0, closed=(), passes=0, accepted=0, heard=True):
    seconds = dict.fromkeys(STAGES, 0.001)
    if not heard:
        seconds["asr"] = seconds["aligner"] = 0.0
    made = Transcripts(1, 2, 5) if heard else Transcripts()
    live = SourceView(tuple(words), 0)
    update = SpeechUpdate(tuple(closed), live, settled, settled, made)
    return Step(audio_s, update, None, (), accepted, passes, seconds)


STREAM = (
    step(1.0, heard=False),
    step(2.0, WORDS[:4], passes=3, accepted=2),  # a tail of 2 s
    step(3.0, WORDS[:6], settled=4, passes=2, accepted=1),  # the same, settled up to 1.9 s
    step(4.0, WORDS[6:8], closed=[WORDS[:6]]),  # 2.1 s and four words
)


@pytest.fixture
def run(tmp_path):
    with Recorder(tmp_path / "steps.jsonl") as recorder:
        for talk in ("a", "b"):
            recorder.talk = talk
            for one in STREAM:
                recorder(one)
    return tmp_path


def test_what_a_run_asked(run):
    work = read_workload(run)
    assert (work.chunk_s, work.heard, work.drafted) == (1.0, 0.75, 0.5)
    assert work.tail_s == pytest.approx((2.0 + 3.0 + (4.0 - 1.9)) / 3)
    assert work.tail_words == pytest.approx((4 + 6 + 4) / 3)
    assert (work.draft_steps, work.accepted) == (2.5, 1.5)
    assert (work.requests, work.asr_steps) == (2.0, 5.0)
    assert work.rtf == pytest.approx(0.001 * (4 * 5 - 2) / 4)
    longer = work.at(2.0)
    assert (longer.chunk_s, longer.draft_steps, longer.accepted) == (2.0, 4.0, 3.0)


def test_runs_that_say_nothing(tmp_path):
    with pytest.raises(ConfigError, match=r"steps.jsonl does not exist; `make dev-low` records"):
        read_workload(tmp_path)
    with pytest.raises(ConfigError, match="no chunk that was heard"):
        count([])


def test_a_stage_by_hand(run):
    work, device, config = read_workload(run), DEVICES["l4"], load_config("default-low")
    found = stages(config, work, "l4")["asr"]
    words, size = 1.5 * work.tail_words, sizes_of(config.models.asr)
    decoder = size.weights - size.tower - size.tables
    assert found.steps == pytest.approx(2 + 3 * 1.5 / 1.3)  # two requests, three tokens beyond
    assert found.weights == pytest.approx(found.steps * 2 * decoder)
    assert found.prefill == pytest.approx(2 * (24 + 13 * work.tail_s + words))
    flops = 2 * (decoder * found.prefill + size.tower * 13 * 2 * work.tail_s)
    assert found.seconds == pytest.approx(
        2 * device.request_s
        + found.steps * (device.step_s + 28 * device.graph_s + 2 * decoder / device.bandwidth)
        + flops / device.rate
        + 2 * work.tail_s * device.features_s
    )


def test_translation_is_eager_unless_the_configuration_says_otherwise(run):
    work, config = read_workload(run), load_config("default-low")
    graphs = config.models.translation.model_copy(update={"engine": {"enforce_eager": False}})
    models = config.models.model_copy(update={"translation": graphs})
    slow, fast = (
        stages(one, work, "h200")["translation"].seconds
        for one in (config, config.model_copy(update={"models": models}))
    )
    device = DEVICES["h200"]
    saved = 2.5 * 42 * (device.layer_s - device.graph_s)
    assert slow - fast == pytest.approx(saved)


@pytest.mark.parametrize("device", sorted(DEVICES))
def test_the_shortest_chunk_that_keeps_up(run, device):
    config, work = load_config("default-low"), read_workload(run)
    chosen = smallest_chunk(config, work, device)
    shorter = [ms for ms in cost_model.CHUNKS_MS if chosen is None or ms < chosen]
    assert all(rtf(config, work.at(ms / 1000), device) > KEEPS_UP for ms in shorter)
    assert chosen is None or rtf(config, work.at(chosen / 1000), device) <= KEEPS_UP


def test_faster_devices_cost_less(run):
    config, work = load_config("default-low"), read_workload(run)
    factors = [rtf(config, work, device) for device in ("h200", "a100", "4090", "l4", "cpu")]
    assert factors == sorted(factors)


def test_a_slower_cpu_has_a_slower_host(monkeypatch):
    monkeypatch.setattr(cost_model, "launch_s", lambda: 2 * cost_model.LAUNCH_S)
    cost_model.find_device.cache_clear()
    found, fitted = cost_model.find_device("cpu"), DEVICES["cpu"]
    cost_model.find_device.cache_clear()
    for name in ("request_s", "step_s", "layer_s", "graph_s", "features_s"):
        assert getattr(found, name) == pytest.approx(2 * getattr(fitted, name))
    assert (found.bandwidth, found.rate) == (fitted.bandwidth, fitted.rate)
    assert cost_model.find_device("l4") is DEVICES["l4"]


def test_the_command(run, capsys):
    arguments = ["--config", "default-low", "--run", str(run)]
    assert main([*arguments, "--device", "h200"]) == 0
    out = capsys.readouterr().out
    assert "computed for h200: real-time factor" in out
    assert "--set chunk_ms=" in out
    assert "measured in the run" not in out
    path = run / "slow.yaml"
    path.write_text(load_config("default-low", {"chunk_ms": 1000}).to_yaml())
    assert main(["--config", str(path), "--run", str(run), "--device", "cpu"]) == 0
    assert "measured in the run: 0.00; computed is +" in capsys.readouterr().out


def test_the_table_of_the_doctor_is_what_is_computed():
    assert PREDICTIONS.read_text(encoding="utf-8") == table(stored())
