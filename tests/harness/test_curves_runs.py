"""Runs of a sweep on fake engines: they are the product's, and they resume."""

from __future__ import annotations

import itertools
import json
import logging
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest
import yaml
from simulstream import inference
from simulstream.metrics.logger import METRICS_LOGGER

from alignatt_agent.config.agent_config import load_config
from alignatt_agent.curves import experiment as studies
from alignatt_agent.curves import sweep
from alignatt_agent.curves.cli import build_parser, main
from alignatt_agent.curves.experiment import Study, conduct, plan
from alignatt_agent.curves.grid import SINGLE, Point
from alignatt_agent.curves.scoring import load_scores, score_all
from alignatt_agent.curves.stream import ReplayAgent
from alignatt_agent.curves.sweep import Material, runs_of, stream
from alignatt_agent.evaluation.cache import Memo
from alignatt_agent.evaluation.devset import load_devset
from alignatt_agent.types import EngineError
from tests.harness import fakes

ROLES = ("asr", "aligner", "translation")
POINTS = [
    Point("operating-low", "alignatt", "low", "low"),
    Point("operating-high", "alignatt", "high", "high"),
    Point("gate", SINGLE, "hold-back 700", settings={"speech.hold_back_ms": 700}),
    Point(
        "held", "hold_n", "n 2", settings={"policy.name": "hold_n", "policy.n": 2, "chunk_ms": 500}
    ),
    Point(
        "agreed",
        "local_agreement",
        "n 2",
        settings={"policy.name": "local_agreement", "policy.n": 2},
    ),
]


class Engines(fakes.FakeEngines):
    """Fake engines that count drafts and can die."""

    def __init__(self, dies_after=None):
        super().__init__()
        self.drafted = 0
        draft = self.translation.draft

        def counted(*arguments, **named):
            self.drafted += 1
            if dies_after is not None and self.drafted > dies_after:
                raise EngineError("fake translation model: out of memory")
            return draft(*arguments, **named)

        self.translation.draft = counted


@pytest.fixture
def world(tmp_path):
    """Configurations of the two operating points and a dev set."""
    low = fakes.write_config(tmp_path)
    high = tmp_path / "high.yaml"
    high.write_text(yaml.safe_dump(yaml.safe_load(low.read_text()) | {"chunk_ms": 1500}))
    fakes.write_devset(tmp_path / "devset")
    return tmp_path


@pytest.fixture(autouse=True)
def _no_failures():
    yield
    ReplayAgent.failures.clear()
    ReplayAgent.give(None)


def runs_in(world, folder, targets=("de", "zh"), points=POINTS):
    bases = {
        "low": load_config(str(world / "fake.yaml")),
        "high": load_config(str(world / "high.yaml")),
    }
    return runs_of(points, targets, bases, world / folder / "runs")


def material(world, folder):
    models = load_config(str(world / "fake.yaml")).models
    devset = load_devset(world / "devset", ["de", "zh"])
    names = {role: f"fake {role}" for role in ROLES}
    return Material(devset, "en", models, names, world / folder / "memo.sqlite")


def lines(path: Path, without=("computation_time", "model_loading_time")):
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in without} for line in found]


def emitted(path: Path):
    return [line["generated_tokens"] for line in lines(path) if "generated_tokens" in line]


def test_a_run_emits_what_simulstream_makes_of_the_agent(world):
    METRICS_LOGGER.setLevel(logging.INFO)
    METRICS_LOGGER.disabled = False
    runs = runs_in(world, "sweep")
    stream(runs, material(world, "sweep"), lambda *_: Engines())
    for run in runs:
        wavs = world / "wavs.txt"
        wavs.write_text("".join(f"{path}\n" for path in sorted((world / "devset/wav").iterdir())))
        config = world / "product.yaml"
        content = run.config.for_target(run.target).model_dump()
        content |= {"type": "tests.harness.fakes.FakeAgent", "early_stop": True}
        config.write_text(yaml.safe_dump(content))
        log = world / "product.jsonl"
        log.unlink(missing_ok=True)
        inference.main(
            Namespace(
                speech_processor_config=str(config),
                wav_list_file=str(wavs),
                tgt_lang=run.target,
                src_lang="en",
                metrics_log_file=str(log),
            )
        )
        assert lines(run.log) == lines(log), run.point.name
        assert any(emitted(run.log))


def test_policies_differ(world):
    runs = runs_in(world, "sweep", ["de"])
    stream(runs, material(world, "sweep"), lambda *_: Engines())
    outputs = {run.point.name: json.dumps(emitted(run.log)) for run in runs}
    assert len(set(outputs.values())) == len(outputs)


def test_an_interrupted_sweep_ends_like_an_uninterrupted_one(world):
    whole = Engines()
    stream(runs_in(world, "whole"), material(world, "whole"), lambda *_: whole)

    dying = Engines(dies_after=whole.drafted // 2)
    with pytest.raises(EngineError, match="out of memory"):
        stream(runs_in(world, "cut"), material(world, "cut"), lambda *_: dying)
    complete = [run.log for run in runs_in(world, "cut") if run.log.is_file()]
    assert 0 < len(complete) < len(runs_in(world, "cut"))
    times = {log: log.stat().st_mtime_ns for log in complete}

    rest = Engines()
    stream(runs_in(world, "cut"), material(world, "cut"), lambda *_: rest)
    assert rest.drafted == whole.drafted - whole.drafted // 2
    assert {log: log.stat().st_mtime_ns for log in complete} == times
    for ours, theirs in zip(runs_in(world, "cut"), runs_in(world, "whole"), strict=True):
        assert lines(ours.log) == lines(theirs.log)


def test_finished_sweeps_start_no_engine(world):
    runs = runs_in(world, "sweep", ["de"])
    assert stream(runs, material(world, "sweep"), lambda *_: Engines()) == len(runs)
    assert stream(runs, material(world, "sweep"), pytest.fail) == 0


@pytest.mark.parametrize("changed", ["config", "audio", "head set", "model"])
def test_a_run_made_from_something_else_is_repeated(world, changed):
    runs = runs_in(world, "sweep", ["de"])
    common = material(world, "sweep")
    stream(runs, common, lambda *_: Engines())
    if changed == "config":
        point = Point("gate", "alignatt", "", settings={"speech.hold_back_ms": 100})
        runs = runs_in(world, "sweep", ["de"], [*POINTS[:2], point])
    elif changed == "audio":
        fakes.write_talk(world / "devset/wav/talk1.wav", fakes.talk(8, 5))
    elif changed == "head set":
        item = fakes.head_set(heads=[{"layer": 3, "head": 1, "ts": 1}, *fakes.head_set()["heads"]])
        (world / "fake-en-de.json").write_text(json.dumps(item))
    else:
        common.names["translation"] = "another"
    assert stream(runs, common, lambda *_: Engines()) == (1 if changed == "config" else len(runs))


def test_computation_is_what_the_engines_took_when_they_computed(world, monkeypatch):
    ticks = itertools.count(0, 3)
    monkeypatch.setattr(sweep, "Memo", lambda path: Memo(path, ticks.__next__))
    runs = runs_in(world, "sweep", ["de"], POINTS[:1])
    stream(runs, material(world, "sweep"), lambda *_: Engines())
    first = lines(runs[0].log, ())
    runs[0].log.unlink()
    stream(runs, material(world, "sweep"), lambda *_: Engines())
    assert lines(runs[0].log, ()) == first
    spent = [line["computation_time"] for line in first if "computation_time" in line]
    # Nothing is heard before two seconds; then a transcript, an alignment and a draft.
    assert spent[0] == 0.0
    assert 9.0 in spent


def test_scores_by_segment_are_those_of_simulstream_eval(world):
    runs = runs_in(world, "sweep", ["de", "zh"], POINTS[:1])
    common = material(world, "sweep")
    stream(runs, common, lambda *_: Engines())
    score_all(runs, common.devset, world / "jobs.json")
    code = "import sys; from alignatt_agent.evaluation.cli import main; sys.exit(main())"
    arguments = ["--agent", str(world / "fake.yaml"), "--target", "de", "zh"]
    arguments += ["--devset", str(world / "devset"), "--output", str(world / "eval")]
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True)
    for run in runs:
        ours = load_scores(run).corpus()
        theirs = json.loads((world / "eval" / run.target / "scores.json").read_text())
        assert ours["bleu"] == pytest.approx(theirs["bleu"], abs=1e-3)
        assert ours["chrf"] == pytest.approx(theirs["chrf"], abs=1e-3)
        assert ours["cu_ms"] == pytest.approx(theirs["longyaal_cu_ms"], abs=1e-2)


def test_from_configurations_to_figures(world, monkeypatch):
    monkeypatch.setattr(studies, "sweep", lambda size: POINTS)
    plans = {
        name: plan(
            "tests.harness.fakes.FakeAgent",
            str(world / file),
            {},
            None,
            ["de"],
            world / "devset",
            world / "out",
        )
        for name, file in (("low", "fake.yaml"), ("high", "high.yaml"))
    }
    comparisons = conduct(Study(plans, "quick", None, 50), lambda *_: Engines(), lambda: None)
    out = world / "out"
    found = json.loads((out / "curves.json").read_text())
    assert {run["name"] for run in found["targets"]["de"]["runs"]} == {p.name for p in POINTS}
    assert {item.rival for item in comparisons} == {"hold_n", "local_agreement"}
    assert {item.point for item in comparisons} == {"low", "high"}
    assert len(found["dominance"]["comparisons"]) == len(comparisons) == 2 * 2 * 2 * 2
    fronts = found["targets"]["de"]["fronts"]["cu_ms"]["bleu"]
    assert set(fronts) == {SINGLE, "hold_n", "local_agreement"}  # the fake's gate asks one draft
    assert "| maintained default | - |" in (out / "ablation.md").read_text()
    for stem in ("bleu-cu", "bleu-ca", "chrf-cu", "chrf-ca"):
        assert (out / f"{stem}.png").stat().st_size > 10_000
        assert "<svg" in (out / f"{stem}.svg").read_text()[:1000]
    before = (out / "curves.json").read_text()
    conduct(Study(plans, "quick", None, 50), pytest.fail, lambda: None)
    assert (out / "curves.json").read_text() == before


def test_help_teaches(capsys):
    with pytest.raises(SystemExit):
        build_parser().parse_args(["--help"])
    text = capsys.readouterr().out
    for word in ("hold_n", "local_agreement", "--points quick", "curves.json", "goes on where"):
        assert word in text


def test_bad_input_starts_nothing(tmp_path, capsys):
    arguments = ["--output", str(tmp_path / "out"), "--devset", str(tmp_path)]
    assert main(arguments) == 2
    assert "does not exist" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
