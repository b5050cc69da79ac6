"""Runs of a sweep on fake engines equal those of the product, and they resume."""

import itertools
import json
from dataclasses import replace
from itertools import chain, product
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import yaml

from alignatt_agent.cluster.jobs import JobFailedError
from alignatt_agent.config.agent_config import ConfigError, load_config
from alignatt_agent.evaluation.plan import plan
from alignatt_agent.evaluation.score import ScoringError
from alignatt_agent.evaluation.segments import DevSetError
from alignatt_agent.types import EngineError
from lab.curves import __main__ as cli
from lab.curves import cached_agent, experiment, runs
from lab.curves.cached_agent import CachedAgent, TimedCache
from lab.curves.experiment import PRICES, Study, conduct, tables
from lab.curves.grid import HINDSIGHT, OPERATING, ORACLE, SINGLE, Point, ablations
from lab.curves.runs import runs_of, score_all, stream
from lab.local_jobs import job_runner
from tests.fakes import agent as fakes

HELD = {"policy.name": "hold_n", "policy.n": 2, "chunk_ms": 500}
AGREED = {"policy.name": "local_agreement", "policy.drafts": 2}
POINTS = [
    Point("operating-low", "alignatt", "low", "low"),
    Point("operating-high", "alignatt", "high", "high"),
    Point("gate", SINGLE, "hold-back 700", settings={"speech.hold_back_ms": 700}),
    Point("held", "hold_n", "n 2", settings=HELD),
    Point("agreed", "local_agreement", "n 2", settings=AGREED),
]
BOUND = Point("oracle", ORACLE, "off-line", settings={"policy.name": "none"})


class Drafts(fakes.FakeTranslation):
    """Fake drafts that are counted, of an engine that can die."""

    def __init__(self, dies_after=None):
        super().__init__(fakes.byte_tokenizer())
        self.drafted, self.dies_after = 0, dies_after

    def draft(self, request):
        self.drafted += 1
        if self.dies_after is not None and self.drafted > self.dies_after:
            raise EngineError("fake translation model: out of memory")
        return super().draft(request)


def engines(drafts=None):
    """Return the function that starts the fake engines."""
    found = fakes.FakeEngines(translation=drafts or Drafts())
    return lambda models, heads, recognizer: found


@pytest.fixture
def world(call):
    """A folder with configurations of the two operating points, and a dev set."""
    return call.root


def plans_of(world, output, targets=("de", "zh")):
    options = {"devset": world / "devset", "overrides": {}, "source": None, "targets": targets}
    return plan("alignatt4llm", [str(world / "low.yaml")], output=world / output, **options)


def bases_of(world):
    agent = {"type": "alignatt_agent.agent.AlignAttAgent"}  # a fake one has engines of its own
    return {name: load_config(str(world / f"{name}.yaml"), agent) for name in OPERATING}


def runs_in(world, folder, targets=("de", "zh"), points=POINTS):
    plans = plans_of(world, folder, targets)
    return runs_of(points, plans, bases_of(world), world / folder / "runs")


def stream_in(world, folder, runs, start_engines=None, **options):
    with job_runner(None, 1, CachedAgent.shutdown) as here:
        cache = world / folder / "cache.sqlite"
        return stream(here, runs, start_engines or engines(), cache, **options)


def study_in(world, **changes):
    plans, bases = plans_of(world, "out", ["de"]), bases_of(world)
    return replace(Study(plans, bases, world / "out", "quick"), **changes)


def lines(path: Path, without=("computation_time", "model_loading_time")):
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in without} for line in found]


def emitted(path: Path):
    return [line["generated_tokens"] for line in lines(path) if "generated_tokens" in line]


def test_a_run_is_what_simulstream_eval_makes_of_its_configuration(world, call):
    planned = runs_in(world, "sweep")
    stream_in(world, "sweep", planned)
    for run in planned[: len(POINTS)]:  # of the first target: those of the other have the same
        product = {"type": "tests.fakes.agent.FakeAgent", "debug": {"early_stop": True}}
        content = run.choice.config.model_dump() | product
        (world / f"{run.name}.yaml").write_text(yaml.safe_dump(content))
    status, _, errors = call(configs=[point.name for point in POINTS])
    assert status == 0, errors
    for run, segments in score_all(planned):
        product = world / "out" / run.name / run.target
        assert lines(run.files.metrics) == lines(product / "metrics.jsonl"), run.name
        assert any(emitted(run.files.metrics))
        ours, theirs = segments.corpus(), json.loads((product / "scores.json").read_text())
        assert ours["bleu"] == pytest.approx(theirs["bleu"], abs=1e-3)
        assert ours["chrf"] == pytest.approx(theirs["chrf"], abs=1e-3)
        assert ours["cu_ms"] == pytest.approx(theirs["longyaal_cu_ms"], abs=1e-2)
    german = {json.dumps(emitted(run.files.metrics)) for run in planned if run.target == "de"}
    assert len(german) == len(POINTS)  # policies differ
    path = planned[0].files.instances  # segments that are not what was scored
    path.write_text(path.read_text().replace('"prediction": "', '"prediction": "so '))
    with pytest.raises(ScoringError, match="by OmniSTEval and"):
        score_all(planned)


def test_the_oracle_emits_what_the_offline_translation_begins_with(world):
    # No unit is emitted before the end of its sentence.
    waits = {"policy.name": "hold_n", "policy.n": 99}
    points = [
        BOUND,
        Point("waiting", "hold_n", "n 99", settings=waits),
    ]
    for folder, streams in (("alone", 1), ("together", 3)):
        planned = runs_in(world, folder, ["de"], points)
        stream_in(world, folder, planned, streams=streams)
        early, late = (emitted(run.files.metrics) for run in planned)
        assert list(chain.from_iterable(early)) == list(chain.from_iterable(late))
        emitted_early = np.cumsum([len(tokens) for tokens in early])
        emitted_late = np.cumsum([len(tokens) for tokens in late])
        assert (emitted_early >= emitted_late).all()
        assert (emitted_early > emitted_late).any()


def test_an_interrupted_sweep_ends_like_an_uninterrupted_one(world):
    whole = Drafts()
    stream_in(world, "whole", runs_in(world, "whole"), engines(whole))
    dying = Drafts(dies_after=whole.drafted // 2)
    with pytest.raises(JobFailedError, match="out of memory"):
        stream_in(world, "cut", runs_in(world, "cut"), engines(dying))
    cut = runs_in(world, "cut")
    complete = [item.files.metrics for item in cut if item.streamed]
    assert 0 < len(complete) < len(cut)
    times = {log: log.stat().st_mtime_ns for log in complete}
    rest = Drafts()
    assert stream_in(world, "cut", cut, engines(rest)) == len(cut) - len(complete)
    assert rest.drafted == whole.drafted - whole.drafted // 2
    assert {log: log.stat().st_mtime_ns for log in complete} == times
    for ours, theirs in zip(cut, runs_in(world, "whole"), strict=True):
        assert lines(ours.files.metrics) == lines(theirs.files.metrics)


def change_config(world):
    return [*POINTS[:2], replace(POINTS[2], settings={"speech.hold_back_ms": 100})]


def change_head_set(world):
    heads = [{"layer": 3, "head": 1, "ts": 1}, *fakes.head_set()["heads"]]
    (world / "fake-en-de.json").write_text(json.dumps(fakes.head_set(heads=heads)))


def change_model(world):
    (world / "checkpoints/fake-mt/config.json").write_text('{"another": 1}')


@pytest.mark.parametrize(
    ("change", "repeated"),
    [(change_config, 1), (change_head_set, 5), (change_model, 5)],
)
def test_a_run_made_from_something_else_is_repeated(world, change, repeated):
    assert stream_in(world, "sweep", runs_in(world, "sweep", ["de"])) == len(POINTS)
    assert stream_in(world, "sweep", runs_in(world, "sweep", ["de"]), pytest.fail) == 0
    points = change(world) or POINTS
    assert stream_in(world, "sweep", runs_in(world, "sweep", ["de"], points)) == repeated


def test_the_engines_are_those_of_the_recognizer(world):
    point = Point("heard", "hold_n", "n 2", settings=HELD | {"speech.recognizer": "whisper"})
    start = Mock(wraps=engines())
    stream_in(world, "sweep", runs_in(world, "sweep", ["de"], [point]), start)
    assert start.call_args.args[2] == "whisper"


def test_computation_is_what_the_engines_took_when_they_computed(world, monkeypatch):
    ticks = itertools.count(0, 3)
    monkeypatch.setattr(cached_agent, "TimedCache", lambda path: TimedCache(path, ticks.__next__))
    planned = runs_in(world, "sweep", ["de"], POINTS[:1])
    stream_in(world, "sweep", planned)
    log = planned[0].files.metrics
    first = lines(log, ["model_loading_time"])
    log.unlink()
    stream_in(world, "sweep", planned)
    assert lines(log, ["model_loading_time"]) == first
    spent = [line["computation_time"] for line in first if "computation_time" in line]
    # Nothing is transcribed before two seconds; then a transcript, an alignment and a draft.
    assert spent[0] == 0.0
    assert 9.0 in spent


def test_talks_side_by_side_leave_nothing_to_compute_and_say_the_same(world, monkeypatch):
    one_by_one, at_once = runs_in(world, "sweep"), runs_in(world, "beside")
    fill, known, rooms = runs.fill_cache, [], []

    def start(models, heads, recognizer):
        rooms.append({getattr(models, role).engine.get("max_num_seqs") for role in models.roles})
        return engines()(models, heads, recognizer)

    def noted(missing, engines, streams):
        fill(missing, engines, streams)
        known.extend([engines.asr._cache, engines.asr._cache.computed])

    monkeypatch.setattr(runs, "fill_cache", noted)
    stream_in(world, "sweep", one_by_one, start)
    assert stream_in(world, "beside", at_once, start, streams=3) == len(at_once)
    assert rooms[-1] == {3}  # engines have room for every talk at once
    assert rooms[0] != {3}
    disk, computed = known
    assert disk.computed == computed > 0
    for alone, beside in zip(one_by_one, at_once, strict=True):
        assert emitted(alone.files.metrics) == emitted(beside.files.metrics)
        assert any(emitted(beside.files.metrics))


def test_from_configurations_to_figures(world, monkeypatch):
    monkeypatch.setattr(experiment, "sweep", lambda size, only: [*POINTS, BOUND])
    monkeypatch.setattr(experiment, "ablations", lambda *given: ablations(*given)[:2])
    found = conduct(study_in(world), start_engines=engines())
    text = (world / "out/curves.json").read_text()
    assert json.loads(text) == json.loads(json.dumps(found))
    drawn = {run["name"]: run["curve"] for run in found["targets"]["de"]["runs"]}
    assert drawn == {  # the fake's gate asks one draft
        "operating-low": SINGLE, "operating-high": SINGLE, "gate": SINGLE,
        "held": "hold_n", "agreed": "local_agreement", "oracle": ORACLE,
        **{f"hindsight-{price}": HINDSIGHT for price in PRICES},
    }  # fmt: skip
    compared = found["dominance"]["comparisons"]
    sides: dict[bool, set[str]] = {True: set(), False: set()}
    for item in compared:
        sides[item["point"] in ("low", "high", BOUND.label)].add(item["rival"])
    rivals = {"hold_n", "local_agreement", HINDSIGHT}
    assert sides == {True: {*rivals, ORACLE, SINGLE}, False: {SINGLE}}
    assert len(compared) == (3 * 4 + 2 + len(PRICES)) * 2 * 2
    assert {(x["point"], x["curve"]) for x in found["differences"]} == {
        *product(("low", "high"), {*rivals, ORACLE}),
        *product((BOUND.label,), {*rivals, SINGLE}),
    }
    assert "maintained default" in "\n".join(tables(found))
    for stem in ("bleu-cu", "bleu-ca", "chrf-cu", "chrf-ca"):
        assert (world / f"out/{stem}.png").stat().st_size > 10_000
        assert "<svg" in (world / f"out/{stem}.svg").read_text()[:1000]
    conduct(study_in(world), start_engines=pytest.fail)
    assert (world / "out/curves.json").read_text() == text


def test_studies_that_cannot_be_are_refused(world, monkeypatch):
    with pytest.raises(ConfigError, match="--streams 0"):
        study_in(world, streams=0)
    for key, value in {"models.asr.dtype": "bfloat16", "speech.recognizer": "whisper"}.items():
        other = load_config(str(world / "high.yaml"), {key: value})
        with pytest.raises(ConfigError, match="the same models"):
            study_in(world, bases=bases_of(world) | {"high": other})
    monkeypatch.setattr(cli, "study_from", lambda _: study_in(world, streams=2))
    with pytest.raises(ConfigError, match="each worker streams one talk"):
        cli.main(["--output", str(world / "out"), "--streams", "2", "--ray", "127.0.0.1:1"])


def test_bad_input_starts_nothing_and_a_failure_says_how_to_go_on(tmp_path, monkeypatch):
    output = ["--output", str(tmp_path / "out"), "--target", "de"]
    with pytest.raises(DevSetError, match="does not exist") as caught:
        cli.main([*output, "--devset", str(tmp_path)])
    assert caught.value.exit_status == 2
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr(cli, "conduct", Mock(side_effect=EngineError("out of memory")))
    with pytest.raises(cli.CurvesError, match="out of memory; the same command resumes") as caught:
        cli.main(output)
    assert caught.value.exit_status == 1
