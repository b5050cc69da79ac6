"""Costs of a chunk: counted in a trace, computed from sizes."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from alignatt_agent.config.agent_config import ConfigError, load_config
from alignatt_agent.doctor.cli import PREDICTIONS
from alignatt_agent.doctor.model_sizes import sizes_of
from alignatt_agent.evaluation.trace import Recorder
from alignatt_agent.types import SourceView, SpeechUpdate, Step, Transcripts, Word
from alignatt_agent.types.stopwatch import STAGES
from lab.cost.__main__ import main, stored, table
from lab.cost.prediction import CHUNKS_MS, DEVICES, KEEPS_UP, demands, rtf, seconds, smallest_chunk
from lab.cost.workload import count, read_workload

WORDS = tuple(Word(f"w{n}", n / 2, n / 2 + 0.4) for n in range(12))
CONFIG = load_config("default-low")


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


def test_what_a_run_asked(run, capsys):
    work = read_workload(run)
    assert (work.chunk_s, work.heard, work.drafted) == (1.0, 0.75, 0.5)
    assert work.tail_s == pytest.approx((2.0 + 3.0 + (4.0 - 1.9)) / 3)
    assert work.tail_words == pytest.approx((4 + 6 + 4) / 3)
    assert (work.draft_steps, work.accepted) == (2.5, 1.5)
    assert (work.requests, work.asr_steps) == (2.0, 5.0)
    longer = work.at(2.0)
    assert (longer.chunk_s, longer.draft_steps, longer.accepted) == (2.0, 4.0, 3.0)
    assert main(["--count", str(run)]) == 0
    assert json.loads(capsys.readouterr().out) == asdict(work)


def test_runs_that_say_nothing(tmp_path):
    with pytest.raises(ConfigError, match=r"steps.jsonl does not exist; `make dev-low` records"):
        read_workload(tmp_path)
    with pytest.raises(ConfigError, match="no chunk that was heard"):
        count([])


def test_a_model_by_hand(run):
    work, device, model = read_workload(run), DEVICES["l4"], CONFIG.models.asr
    demand, size = demands(work)["asr"], sizes_of(model)
    decoder = size.weights - size.tower - size.tables
    assert demand.steps == pytest.approx(2 + 3 * 1.5 / 1.3)  # two requests, three tokens beyond
    assert demand.prefill == pytest.approx(24 + 13 * work.tail_s + 1.5 * work.tail_words)
    flops = 2 * 2 * (decoder * demand.prefill + size.tower * 13 * work.tail_s)
    for eager, layer in ((False, device.graph_s), (True, device.layer_s)):
        assert seconds(model, eager, demand, device) == pytest.approx(
            2 * device.request_s
            + demand.steps * (device.step_s + 28 * layer + 2 * decoder / device.bandwidth)
            + flops / device.rate
            + 2 * work.tail_s * device.features_s
        )


def test_translation_is_eager_unless_the_configuration_says_otherwise(run):
    work, device = read_workload(run), DEVICES["h200"]
    graphs = load_config("default-low", {"models.translation.engine": {"enforce_eager": False}})
    saved = work.drafted * 2.5 * 42 * (device.layer_s - device.graph_s) / work.chunk_s
    assert rtf(CONFIG, work, device) - rtf(graphs, work, device) == pytest.approx(saved)


@pytest.mark.parametrize("device", DEVICES.values())
def test_the_shortest_chunk_that_keeps_up(run, device):
    work = read_workload(run)
    chosen = smallest_chunk(CONFIG, work, device)
    for ms in CHUNKS_MS[: CHUNKS_MS.index(chosen) + 1 if chosen else None]:
        assert (rtf(CONFIG, work.at(ms / 1000), device) <= KEEPS_UP) == (ms == chosen)


def test_faster_devices_cost_less(run):
    factors = [rtf(CONFIG, read_workload(run), device) for device in DEVICES.values()]
    assert factors == sorted(factors)


def test_the_table_of_the_doctor_is_what_is_computed():
    assert PREDICTIONS.read_text(encoding="utf-8") == table(stored())
