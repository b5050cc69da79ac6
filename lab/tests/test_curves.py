"""Curves without models: results on disk, fronts, resamples, and the points of a sweep."""

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from alignatt_agent.config.agent_config import AgentConfig, ConfigError, DebugConfig, load_config
from alignatt_agent.config.head_sets import load_head_set
from alignatt_agent.evaluation.cache import key_of
from alignatt_agent.types import Draft, Prompt
from alignatt_agent.types.engines import DraftRequest, Gate, Readout
from lab.curves import figure
from lab.curves.cached_agent import CachedDrafts, TimedCache
from lab.curves.experiment import tables
from lab.curves.grid import HINDSIGHT, ablations, curve_names, derived_head_set, sweep
from lab.curves.pareto import (
    BLOCK,
    Resampled,
    SegmentScores,
    at_latency,
    best_in_hindsight,
    compare,
    compare_means,
    front,
)
from tests.fakes.models import ScriptedEngine, make_rows

PROMPT = Prompt((7, 7, 1, 2, 3), 2, (0, 1, 1))
HEADS = ((0, 0), (0, 1), (1, 0))
WIDE = Readout(HEADS, "predicting")
DRAFT = Draft((4, 5), True, make_rows([np.eye(3) * 0.5] * 2), False, 3)


@pytest.fixture
def disk(tmp_path):
    return TimedCache(tmp_path / "results.sqlite", clock=itertools.count(0, 2).__next__)


# ------------------------------------------------------------------ results on disk
def test_results_are_computed_once_and_charged_the_same_seconds_every_time(disk, tmp_path):
    with pytest.raises(RuntimeError):  # a failure is not kept
        disk.get_or_compute(key_of("a"), lambda: (_ for _ in ()).throw(RuntimeError("engine")))
    calls = []
    for _ in range(3):
        disk.spent = 0.0
        assert disk.get_or_compute(key_of("a"), lambda: calls.append(1) or b"value") == b"value"
        assert disk.spent == 2.0
    assert len(calls) == disk.computed == 1
    disk.close()
    again = TimedCache(tmp_path / "results.sqlite")
    assert again.get_or_compute(key_of("a"), pytest.fail) == b"value"
    assert again.spent == 2.0


def test_borders_and_types_of_parts_count():
    assert len({key_of(*parts) for parts in [("ab", "c"), ("a", "bc"), (b"1",), ("1",), (1,)]}) == 5


def drafts_of(disk, name="model"):
    engine = ScriptedEngine([DRAFT])
    return engine, CachedDrafts(engine, disk, name)


@pytest.mark.parametrize(
    ("name", "prompt", "limit", "readout"),
    [
        ("model", Prompt((7, 7, 1, 2, 9), 2, (0, 1, 1)), 16, WIDE),
        ("model", Prompt((7, 7, 1, 2, 3), 1, (0, 1, 1)), 16, WIDE),
        ("model", PROMPT, 8, WIDE),
        ("model", PROMPT, 16, Readout(HEADS, "emitted")),
        ("model", PROMPT, 16, Readout(HEADS[:2], "predicting")),
        ("model", PROMPT, 16, None),
        ("another", PROMPT, 16, WIDE),
    ],
)
def test_nothing_that_matters_is_left_out_of_the_key(disk, name, prompt, limit, readout):
    drafts_of(disk)[1].draft(DraftRequest(PROMPT, 16, WIDE))
    engine, drafts = drafts_of(disk, name)
    drafts.draft(DraftRequest(prompt, limit, readout))
    assert len(engine.calls) == 1


def test_excluded_tokens_are_part_of_the_key(disk):
    drafts_of(disk)[1].draft(DraftRequest(PROMPT, 16, WIDE))
    for excluded, computed in (((), 0), ((3,), 1), ((3, 4), 1), ((3,), 0)):
        engine, drafts = drafts_of(disk)
        drafts.draft(DraftRequest(PROMPT, 16, WIDE, excluded=excluded))
        assert len(engine.calls) == computed


@pytest.mark.parametrize("extra", [{"gate": Gate({}, 1)}, {"resumed": Draft((4,), False)}])
def test_drafts_that_depend_on_the_policy_are_refused(disk, extra):
    with pytest.raises(ValueError, match="early_stop"):
        drafts_of(disk)[1].draft(DraftRequest(PROMPT, 16, WIDE, **extra))


# ------------------------------------------------------------------ fronts and resamples
LATENCY, QUALITY = [1.0, 2.0, 3.0, 2.5, 2.0], [10.0, 30.0, 40.0, 20.0, 25.0]


@pytest.mark.parametrize(
    ("latency", "quality", "places"),
    [
        (LATENCY, QUALITY, [0, 1, 2]),
        ([1.0, 1.0], [5.0, 5.0], [0]),  # of equal points one stays
        ([np.nan, 1.0], [99.0, 5.0], [1]),  # what is not a number never counts
        ([np.nan], [1.0], []),
    ],
)
def test_beaten_points_are_not_on_the_front(latency, quality, places):
    assert front(np.asarray(latency), np.asarray(quality)).tolist() == places


def test_quality_before_between_and_beyond_the_points_of_a_front():
    latency, quality = np.array([*LATENCY, 4.0]), np.array([*QUALITY, 35.0])
    found = at_latency(latency, quality, [0.5, 1.0, 1.5, 2.9, 3.5, 9.0])
    assert found == pytest.approx([np.nan, 10, 20, 39, 40, np.nan], nan_ok=True)


PAIRS = [
    ("the cat sat on the mat", "the cat sat on a mat today"),
    ("a dog", "the dog barks"),
    ("", "nothing was emitted here"),
    ("we train large models on text", "we train large models on text"),
]
GOOD = [(reference, reference) for _, reference in PAIRS]


def segments(pairs, delays=None):
    outputs, references = zip(*pairs, strict=True)
    delays = delays or [1.0] * len(pairs)
    return SegmentScores.of(outputs, references, delays, delays, "13a")


@pytest.mark.parametrize("chosen", [[0, 1, 2, 3], [0, 0, 3], [1], [1, 2], [2], [1, 1, 3, 3, 3]])
def test_sums_of_segments_are_the_scores_of_sacrebleu(chosen):
    weights = np.bincount(chosen, minlength=len(PAIRS)).astype(float)
    found = segments(PAIRS).resampled(weights[None])
    outputs, references = zip(*(PAIRS[i] for i in chosen), strict=True)
    for name, metric in (("bleu", BLEU()), ("chrf", CHRF())):
        official = metric.corpus_score(outputs, [references]).score
        assert found[name][0] == pytest.approx(official)


def test_latency_is_the_mean_of_segments_that_have_one():
    scores = segments(PAIRS, [100.0, 300.0, None, 800.0])
    assert scores.corpus()["cu_ms"] == pytest.approx(400)
    drawn = scores.resampled(np.array([[0.0, 2, 5, 1], [0, 0, 4, 0]]))["cu_ms"]
    assert drawn == pytest.approx([1400 / 3, np.nan], nan_ok=True)


def test_resamples_are_paired_and_draw_neighbours_together():
    # Both runs vary a lot between segments; their difference never does.
    weak = segments(PAIRS * BLOCK, [1.0] * 4 * BLOCK)
    strong = SegmentScores(weak.bleu, weak.chrf, weak.cu_ms, weak.ca_ms + 50)
    scores = Resampled({"a": weak, "b": strong})
    assert scores.interval("a", "chrf").high - scores.interval("a", "chrf").low > 1
    margin = scores.margin("a", ["b"], "cu_ms", "chrf")
    assert (margin.value, margin.low, margin.high) == (0, 0, 0)
    lags = [float(i // BLOCK) for i in range(2 * BLOCK)]
    scores = Resampled({"a": segments([PAIRS[0]] * 2 * BLOCK, lags)})
    assert set(scores._scores["a"]["cu_ms"]) == {0.0, 0.5, 1.0}


NOTHING = [("", reference) for _, reference in PAIRS]
SLOW = segments(GOOD, [3000.0] * 4)


@pytest.mark.parametrize(
    ("ours", "rivals", "margin", "verdict"),
    [
        # A quarter of the way from 0 to 100.
        ((GOOD, 1500.0), {"slow": SLOW, "fast": segments(NOTHING, [1000.0] * 4)}, 75, "yes"),
        ((PAIRS, 1000.0), {"slow": SLOW}, None, "not comparable"),
        ((GOOD, 3001.0), {"slow": segments(NOTHING, [3000.0] * 4)}, None, "not comparable"),
        ((NOTHING, 3000.0), {"slow": SLOW}, -100, "no"),
    ],
)
def test_a_point_against_the_front_of_a_rival(ours, rivals, margin, verdict):
    pairs, delay = ours
    scores = Resampled({"ours": segments(pairs, [delay] * 4), **rivals})
    compared = [*compare("de", scores, "low", "ours", {"hold_n": list(rivals)})]
    assert compared[0]["margin"] == dict.fromkeys(("value", "low", "high"), margin)
    assert compared[0]["dominates"] == verdict
    *_, shown = tables({"dominance": {"comparisons": compared}, "ablation": {}})
    assert verdict in shown.splitlines()[-1]


def test_targets_are_averaged_resample_by_resample():
    # A resample with two good halves of one target has two bad halves of the other.
    good, bad = [PAIRS[0]] * BLOCK, [("", PAIRS[0][1])] * BLOCK
    delays = [1000.0] * 2 * BLOCK
    rival = segments(good + good, delays)
    targets = [
        Resampled({"ours": segments(pairs, delays), "a": rival})
        for pairs in (good + bad, bad + good)
    ]
    for target in targets:
        alone = target.margin("ours", ["a"], "cu_ms", "chrf")
        assert (alone.low, alone.high) == pytest.approx((-55.99, 0), abs=0.01)
    rows = compare_means(targets, "low", "ours", "hold_n", ["a"])
    mean = next(r for r in rows if (r["latency"], r["quality"]) == ("cu_ms", "chrf"))
    assert mean["margin"] == pytest.approx(
        {"value": -25.36, "low": -27.99, "high": -25.36}, abs=0.01
    )
    assert mean["dominates"] == "no"


def test_hindsight_chooses_the_best_run_of_each_segment():
    good, poor = segments(GOOD, [3000.0, 3000, 1000, 3000]), segments(PAIRS, [1000.0] * 3 + [None])
    free = best_in_hindsight([poor, good], 0)
    assert free.corpus()["bleu"] == pytest.approx(100)
    # Only the third sentence is worse in the poor run and as early in the good run; the fourth has
    # no latency in the poor run.
    dear = best_in_hindsight([poor, good], 1000)
    assert dear.cu_ms.tolist() == [1000, 1000, 1000, 3000]
    np.testing.assert_array_equal(dear.bleu, [*poor.bleu[:2], *good.bleu[2:]])


# ------------------------------------------------------------------ the grid
BASES = {name: load_config(f"micro-{name}") for name in ("low", "high")}


@pytest.mark.parametrize("size", ["quick", "full"])
def test_every_point_is_a_run_of_its_own(size):
    points = sweep(size)
    configs = {point.name: point.config(BASES) for point in points}
    assert len(configs) == len(points)
    assert {point.curve for point in points} == set(curve_names()) - {HINDSIGHT}
    grid = [configs[point.name].digest() for point in points if point.settings]
    assert len(set(grid)) == len(grid)
    debug = DebugConfig(early_stop=False, draft_ahead=False)
    assert all(config.debug == debug for config in configs.values())
    for name, base in BASES.items():
        assert configs[f"operating-{name}"] == base.model_copy(update={"debug": debug})


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("hold_n-c500-n8", {"policy.name": "hold_n", "policy.n": 8, "chunk_ms": 500}),
        ("alignatt-n2-c500-h100-b-4", {"policy.border_margin": -4, "policy.drafts": 2}),
        ("alignatt-n2-c500-h100-b-4", {"speech.hold_back_ms": 100, "chunk_ms": 500}),
        ("wait_k-c500-n3-r1.5", {"policy.name": "wait_k", "policy.k": 3, "policy.rate": 1.5}),
        ("confidence-c500-t0.95", {"policy.tau_prob": 0.95}),
    ],
)
def test_points_are_what_their_names_say(name, settings):
    [point] = [point for point in sweep("full", [name]) if point.settings]
    raw = point.config(BASES).model_dump()
    for key, value in settings.items():
        section, _, last = key.rpartition(".")
        assert (raw[section] if section else raw)[last] == value


def test_some_points_beside_the_operating_ones():
    wanted = ["hold_n-c500-n8", "none-c500"]
    names = [point.name for point in sweep("full", wanted)]
    assert names == ["operating-low", "operating-high", *wanted]
    with pytest.raises(ConfigError, match=r"no point hold_n-c9 in the quick grid.*none-c850"):
        sweep("quick", ["none-c850", "hold_n-c9"])


def test_the_points_of_the_script_for_real_models_exist():
    script = (Path(__file__).parents[1] / "real_world/policies.sh").read_text()
    named = set(re.findall(r"\b(?:alignatt|either|local_agreement)-c?n?\d[\w-]+", script))
    assert len(named) > 4
    known = {point.name for size in ("real", "real-500") for point in sweep(size)}
    assert named <= known


def test_what_a_point_sets_holds_for_every_target():
    own = {"zh": {"policy": {"drafts": 5, "top_k": 3}}}
    low = AgentConfig.parse({**BASES["low"].model_dump(), "targets": own})
    by_name = {p.name: p.config({"low": low, "high": low}) for p in sweep("full")}
    operating, held = by_name["operating-low"], by_name["hold_n-c500-n8"]
    assert operating.policy_for("zh").drafts == 5
    assert (held.policy_for("zh").n, held.speech.hold_back_ms) == (8, 0)
    assert held.policy_for("zh").top_k == 3


def test_ablations_leave_out_what_the_base_holds_and_derive_head_sets(tmp_path):
    base = BASES["low"]
    points = ablations(base, ["de", "zh"], tmp_path)
    configs = [point.config({"low": base}) for point in points]
    assert len({config.digest() for config in configs}) == len(points)
    by_name = {point.name: point for point in points}
    assert {"default", "normalize-zscore", "median-7", "top-all", "row", "agree-1"} < set(by_name)
    assert not {"normalize-none", "median-1", "top-8", "agree-2"} & set(by_name)
    every, other = (
        load_head_set(by_name[name].settings["head_sets"]["de"]) for name in ("top-all", "row")
    )
    assert len(every.heads) == every.num_layers * every.num_heads
    assert by_name["top-all"].settings["policy.top_k"] == len(every.heads)
    assert (other.row, len(other.heads)) == ("emitted", base.policy.top_k)
    without = ablations(load_config("default-low"), ["de"], tmp_path)
    names = {point.name for point in without}  # no scores, no derived sets
    assert "top-1" in names
    assert not {"top-all", "row"} & names


def test_derived_heads_follow_the_scores():
    raw = {"row": "predicting", "ts_matrix": [[1.0, 0.0], [0.0, 0.0]], "model": "m"}
    assert derived_head_set(raw, "emitted", None) is None
    raw["rows"] = {"emitted": {"ts_matrix": [[0.1, 0.7], [0.7, 0.2]]}}
    found = derived_head_set(raw, "emitted", None)
    heads = [(item["layer"], item["head"], item["ts"]) for item in found["heads"]]
    assert heads == [(0, 1, 0.7), (1, 0, 0.7), (1, 1, 0.2), (0, 0, 0.1)]
    assert (found["row"], found["model"]) == ("emitted", "m")
    assert derived_head_set(raw, "emitted", 2)["heads"] == found["heads"][:2]


# ------------------------------------------------------------------ a figure of several sweeps
def sweep_of(chunk_ms, bleu):
    interval = {"value": bleu, "low": bleu - 1, "high": bleu + 1}
    run = {"curve": "local_agreement", "bleu": interval, "chrf": interval}
    runs = [{**run, "cu_ms": {"value": float(cu_ms)}} for cu_ms in (3000, 2000)]
    return {"signature": {"chunk_ms": chunk_ms}, "targets": {"de": {"runs": runs}}}


def test_a_figure_of_sweeps_with_different_chunks(tmp_path):
    files = [tmp_path / f"{chunk_ms}.json" for chunk_ms in (1000, 500)]
    for file, chunk_ms in zip(files, (1000, 500), strict=True):
        file.write_text(json.dumps(sweep_of(chunk_ms, bleu=20.0)))
    output = tmp_path / "figure.svg"
    assert figure.main([*map(str, files), "--output", str(output)]) == 0
    drawn = output.read_text()
    assert drawn.index("local_agreement, 500 ms") < drawn.index("local_agreement, 1000 ms")
    assert "English to German" in drawn
    (tmp_path / "other.json").write_text('{"rows": []}')
    with pytest.raises(ConfigError, match=r"other.json is not the curves.json of a sweep"):
        figure.main([str(tmp_path / "other.json"), "--output", str(output)])
