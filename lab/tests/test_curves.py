"""Curves without models: memo, fronts, resamples, and what a sweep consists of."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from alignatt_agent.config.agent_config import AgentConfig, ConfigError, DebugConfig, load_config
from alignatt_agent.config.head_sets import load_head_set
from alignatt_agent.evaluation.cache import ResultCache, key_of
from alignatt_agent.types import Draft, Prompt
from alignatt_agent.types.engines import Gate, Readout
from lab.curves.engine_cache import CachedDrafts
from lab.curves.grid import ablations, curve_names, derived_head_set, sweep
from lab.curves.pareto import BLOCK, Resampled, at_latency, compare, dominance_table, front
from lab.curves.segment_scores import SegmentScores
from tests.fakes.models import make_rows

PROMPT = Prompt((7, 7, 1, 2, 3), 2, (0, 1, 1))
HEADS = ((0, 0), (0, 1), (1, 0))


class CountingEngine:
    """Attends to source token ``h`` with head ``h`` of the three."""

    def __init__(self):
        self.asked = []

    def draft(self, prompt, max_tokens, readout=None, gate=None, resumed=None, expected=()):
        self.asked.append(readout)
        rows = None
        if readout is not None:
            one = [np.eye(3)[HEADS.index(head)] * 0.5 for head in readout.heads]
            rows = make_rows(np.stack([one, one]))
        return Draft((4, 5), True, rows, False, 3)


@pytest.fixture
def memo(tmp_path):
    return ResultCache(tmp_path / "memo.sqlite", clock=itertools.count(0, 2).__next__)


class TestMemo:
    def test_computes_once_and_charges_the_same_seconds_every_time(self, memo):
        calls = []
        for _ in range(3):
            memo.spent = 0.0
            assert memo.get_or_compute(key_of("a"), lambda: calls.append(1) or b"value") == b"value"
            assert memo.spent == 2.0
        assert len(calls) == memo.computed == 1

    def test_outlives_its_process(self, memo, tmp_path):
        memo.get_or_compute(key_of("a"), lambda: b"value")
        memo.close()
        again = ResultCache(tmp_path / "memo.sqlite")
        assert again.get_or_compute(key_of("a"), pytest.fail) == b"value"
        assert again.spent == 2.0

    def test_failure_is_not_remembered(self, memo):
        def fail():
            raise RuntimeError("engine")

        with pytest.raises(RuntimeError):
            memo.get_or_compute(key_of("a"), fail)
        assert memo.get_or_compute(key_of("a"), lambda: b"fine") == b"fine"

    def test_borders_of_parts_count(self):
        assert key_of("ab", "c") != key_of("a", "bc")
        assert key_of(b"1") != key_of("1") != key_of(1)


class TestCachedDrafts:
    def drafts(self, memo, name="model", shared=()):
        engine = CountingEngine()
        return engine, CachedDrafts(engine, memo, name, shared)

    def test_recalls_what_was_drafted_to_the_bit(self, memo):
        engine, drafts = self.drafts(memo)
        readout = Readout(HEADS, "predicting")
        first, again = (drafts.draft(PROMPT, 16, readout) for _ in range(2))
        assert len(engine.asked) == 1
        assert (again.token_ids, again.ended, again.cut, again.steps) == ((4, 5), True, False, 3)
        for part in ("source", "prompt", "suffix"):
            assert np.array_equal(getattr(first.rows, part), getattr(again.rows, part))

    @pytest.mark.parametrize(
        ("prompt", "limit", "readout"),
        [
            (Prompt((7, 7, 1, 2, 9), 2, (0, 1, 1)), 16, Readout(HEADS, "predicting")),
            (Prompt((7, 7, 1, 2, 3), 1, (0, 1, 1)), 16, Readout(HEADS, "predicting")),
            (PROMPT, 8, Readout(HEADS, "predicting")),
            (PROMPT, 16, Readout(HEADS, "emitted")),
            (PROMPT, 16, None),
        ],
    )
    def test_nothing_that_matters_is_left_out_of_the_key(self, memo, prompt, limit, readout):
        engine, drafts = self.drafts(memo)
        drafts.draft(PROMPT, 16, Readout(HEADS, "predicting"))
        drafts.draft(prompt, limit, readout)
        assert len(engine.asked) == 2

    def test_another_model_drafts_again(self, memo):
        both = [self.drafts(memo, name) for name in ("model", "another")]
        for _, drafts in both:
            drafts.draft(PROMPT, 16)
        assert [len(engine.asked) for engine, _ in both] == [1, 1]

    def test_a_shared_readout_serves_some_of_its_heads(self, memo):
        engine, drafts = self.drafts(memo, shared=[Readout(HEADS, "predicting")])
        wide = drafts.draft(PROMPT, 16, Readout(HEADS, "predicting"))
        narrow = drafts.draft(PROMPT, 16, Readout((HEADS[2], HEADS[0]), "predicting"))
        assert engine.asked == [Readout(HEADS, "predicting")]
        assert np.array_equal(narrow.rows.source, wide.rows.source[:, [2, 0]])
        assert narrow.rows.source[0, 0, 2] == 0.5
        assert narrow.rows.suffix.shape == (2, 2)

    def test_the_smallest_shared_readout_serves(self, memo):
        wide, small = Readout(HEADS, "predicting"), Readout(HEADS[:2], "predicting")
        engine, drafts = self.drafts(memo, shared=[wide, small])
        drafts.draft(PROMPT, 16, Readout(HEADS[:1], "predicting"))
        assert engine.asked == [small]

    @pytest.mark.parametrize("extra", [{"gate": Gate({}, 1)}, {"resumed": Draft((4,), False)}])
    def test_refuses_drafts_that_depend_on_the_policy(self, memo, extra):
        _, drafts = self.drafts(memo)
        with pytest.raises(ValueError, match="early_stop"):
            drafts.draft(PROMPT, 16, Readout(HEADS, "predicting"), **extra)


class TestFront:
    LATENCY = np.array([1.0, 2.0, 3.0, 2.5, 2.0])
    QUALITY = np.array([10.0, 30.0, 40.0, 20.0, 25.0])

    @pytest.mark.parametrize(
        ("latency", "quality", "places"),
        [
            (LATENCY, QUALITY, [0, 1, 2]),
            ([1.0, 1.0], [5.0, 5.0], [0]),  # of equal points one stays
            ([np.nan, 1.0], [99.0, 5.0], [1]),  # what is not a number never counts
            ([np.nan], [1.0], []),
        ],
    )
    def test_beaten_points_are_left_out(self, latency, quality, places):
        assert front(np.asarray(latency), np.asarray(quality)).tolist() == places

    def test_quality_between_before_and_behind(self):
        found = at_latency(self.LATENCY, self.QUALITY, [0.5, 1.0, 1.5, 2.9, 9.0])
        assert np.isnan(found[0])
        assert found[1:].tolist() == pytest.approx([10, 20, 39, 40])


PAIRS = [
    ("the cat sat on the mat", "the cat sat on a mat today"),
    ("a dog", "the dog barks"),
    ("", "nothing was emitted here"),
    ("we train large models on text", "we train large models on text"),
]


def segment_scores(pairs, delays=None):
    outputs, references = zip(*pairs, strict=True)
    delays = delays or [1.0] * len(pairs)
    return SegmentScores.of(outputs, references, delays, delays, "13a")


class TestSegments:
    @pytest.mark.parametrize("chosen", [[0, 1, 2, 3], [0, 0, 3], [1], [1, 2], [2], [1, 1, 3, 3, 3]])
    def test_sums_are_the_scores_of_sacrebleu(self, chosen):
        weights = np.bincount(chosen, minlength=len(PAIRS)).astype(float)
        found = segment_scores(PAIRS).resampled(weights[None])
        outputs = [PAIRS[i][0] for i in chosen]
        references = [[PAIRS[i][1] for i in chosen]]
        assert found["bleu"][0] == pytest.approx(BLEU().corpus_score(outputs, references).score)
        assert found["chrf"][0] == pytest.approx(CHRF().corpus_score(outputs, references).score)

    def test_latency_is_the_mean_of_segments_that_have_one(self):
        scores = segment_scores(PAIRS, [100.0, 300.0, None, 800.0])
        assert scores.corpus()["cu_ms"] == pytest.approx(400)
        drawn = scores.resampled(np.array([[0.0, 2, 5, 1], [0, 0, 4, 0]]))["cu_ms"]
        assert drawn[0] == pytest.approx(1400 / 3)
        assert np.isnan(drawn[1])


class TestBootstrap:
    GOOD = [(reference, reference) for _, reference in PAIRS]

    def scores(self, **runs):
        return Resampled(runs, resamples=200)

    def test_a_run_has_no_margin_over_itself(self):
        same = segment_scores(PAIRS, [1.0, 2.0, 3.0, 4.0])
        found = self.scores(a=same, b=same).margin("a", ["b"], "cu_ms", "bleu")
        assert (found.value, found.low, found.high) == (0, 0, 0)

    def test_resamples_are_paired(self):
        # Both runs vary a lot between segments; their difference never does.
        weak = segment_scores(PAIRS * BLOCK, [1.0] * 4 * BLOCK)
        strong = SegmentScores(weak.bleu, weak.chrf, weak.cu_ms, weak.ca_ms + 50)
        scores = self.scores(a=weak, b=strong)
        assert scores.interval("a", "chrf").high - scores.interval("a", "chrf").low > 1
        assert scores.margin("a", ["b"], "cu_ms", "chrf").high == 0

    def test_neighbours_are_drawn_together(self):
        lags = [float(i // BLOCK) for i in range(2 * BLOCK)]
        scores = self.scores(a=segment_scores([PAIRS[0]] * 2 * BLOCK, lags))
        assert set(scores._scores["a"]["cu_ms"]) == {0.0, 0.5, 1.0}

    def test_margin_at_the_latency_of_the_point(self):
        rivals = {"slow": segment_scores(self.GOOD, [3000.0] * 4)}
        rivals["fast"] = segment_scores([("", b) for _, b in PAIRS], [1000.0] * 4)
        scores = self.scores(ours=segment_scores(self.GOOD, [1500.0] * 4), **rivals)
        found = scores.margin("ours", list(rivals), "cu_ms", "bleu")
        # A quarter of the way from 0 to 100.
        assert (found.value, found.low, found.high) == pytest.approx((75, 75, 75))

    def test_a_rival_that_is_never_that_fast_has_no_margin(self):
        rival = segment_scores(PAIRS, [3000.0] * 4)
        scores = self.scores(ours=segment_scores(PAIRS, [1000.0] * 4), rival=rival)
        [found, *_] = compare("de", scores, "low", "ours", {"hold_n": ["rival"]})
        assert np.isnan(found.margin.value)
        assert found.dominates
        assert found.as_json()["margin"] == {"value": None, "low": None, "high": None}
        assert "never that fast" in dominance_table([found])

    def test_a_better_rival_is_said_to_be_better(self):
        scores = self.scores(
            ours=segment_scores(PAIRS, [2000.0] * 4), rival=segment_scores(self.GOOD, [900.0] * 4)
        )
        [found, *_] = compare("de", scores, "low", "ours", {"hold_n": ["rival"]})
        assert found.as_json()["dominates"] == "no"
        assert dominance_table([found]).endswith("no")
        assert found.theirs == pytest.approx(100)

    def test_runs_of_different_segments_are_refused(self):
        with pytest.raises(ValueError, match=r"\[3, 4\]"):
            self.scores(a=segment_scores(PAIRS), b=segment_scores(PAIRS[:3]))


class TestPoints:
    BASES = {name: load_config(f"micro-{name}") for name in ("low", "high")}

    @pytest.mark.parametrize("size", ["quick", "full"])
    def test_every_point_is_a_run_of_its_own(self, size):
        points = sweep(size)
        configs = [point.config(self.BASES) for point in points]
        assert len({point.name for point in points}) == len(points)
        assert {point.curve for point in points} == set(curve_names())
        assert not any(config.debug.early_stop for config in configs)
        grid = [c.digest() for p, c in zip(points, configs, strict=True) if p.settings]
        assert len(set(grid)) == len(grid)

    def test_operating_points_are_the_configurations_themselves(self):
        found = {p.base: p.config(self.BASES) for p in sweep("quick") if not p.settings}
        for name, config in self.BASES.items():
            debug = DebugConfig(early_stop=False, draft_ahead=False)
            assert found[name] == config.model_copy(update={"debug": debug})

    def test_rivals_are_what_their_label_says(self):
        by_name = {point.name: point.config(self.BASES) for point in sweep("full")}
        held = by_name["hold_n-c500-n8"]
        assert (held.policy.name, held.policy.n, held.chunk_ms) == ("hold_n", 8, 500)
        assert held.speech.hold_back_ms == 0
        gate = by_name["alignatt-n2-c500-h100-b-4"]
        assert (gate.policy.border_margin, gate.speech.hold_back_ms) == (-4, 100)
        assert (gate.policy.drafts, gate.chunk_ms) == (2, 500)
        assert gate.policy.normalize == self.BASES["low"].policy.normalize
        behind = by_name["wait_k-c500-n3-r1.5"].policy
        assert (behind.name, behind.k, behind.rate) == ("wait_k", 3, 1.5)
        assert by_name["confidence-c500-t0.95"].policy.tau_prob == 0.95

    def test_some_points_beside_the_operating_ones(self):
        wanted = ["hold_n-c500-n8", "none-c500"]
        names = [point.name for point in sweep("full", wanted)]
        assert names == ["operating-low", "operating-high", *wanted]
        with pytest.raises(ConfigError, match=r"no point hold_n-c9 in the quick grid.*none-c850"):
            sweep("quick", ["none-c850", "hold_n-c9"])

    def test_what_a_point_sets_holds_for_every_target(self):
        own = {"zh": {"policy": {"drafts": 5, "top_k": 3}, "speech": {"hold_back_ms": 900}}}
        low = AgentConfig.parse({**self.BASES["low"].model_dump(), "targets": own})
        by_name = {p.name: p.config({"low": low, "high": low}) for p in sweep("full")}
        operating, held = by_name["operating-low"], by_name["hold_n-c500-n8"]
        assert (operating.policy_for("zh").drafts, operating.access_for("zh").hold_back_ms) == (
            5,
            900,
        )
        assert (held.policy_for("zh").n, held.access_for("zh").hold_back_ms) == (8, 0)
        assert held.policy_for("zh").top_k == 3


class TestAblations:
    BASE = load_config("micro-low")

    def test_what_the_base_holds_already_is_left_out(self, tmp_path):
        points = ablations(self.BASE, ["de", "zh"], tmp_path)
        configs = [point.config({"low": self.BASE}) for point in points]
        assert len({config.digest() for config in configs}) == len(points)
        names = {point.name for point in points}
        assert {"default", "normalize-zscore", "median-7", "top-all", "row", "agree-1"} < names
        assert not {"normalize-none", "median-1", "top-8", "agree-2"} & names
        assert {point.label for point in points if point.name == "row"} == {"emitted row"}

    def test_derived_head_sets_are_loaded(self, tmp_path):
        by_name = {point.name: point for point in ablations(self.BASE, ["de"], tmp_path)}
        every = load_head_set(by_name["top-all"].settings["head_sets"]["de"])
        assert len(every.heads) == every.num_layers * every.num_heads
        assert by_name["top-all"].settings["policy.top_k"] == len(every.heads)
        other = load_head_set(by_name["row"].settings["head_sets"]["de"])
        assert (other.row, len(other.heads)) == ("emitted", self.BASE.policy.top_k)

    def test_a_head_set_without_scores_has_no_derived_variants(self, tmp_path):
        names = {point.name for point in ablations(load_config("default-low"), ["de"], tmp_path)}
        assert not {"top-all", "row"} & names
        assert "top-1" in names


class TestDerivedHeadSets:
    RAW = {"row": "predicting", "ts_matrix": [[1.0, 0.0], [0.0, 0.0]], "model": "m"}

    def test_heads_follow_the_scores(self):
        raw = {**self.RAW, "rows": {"emitted": {"ts_matrix": [[0.1, 0.7], [0.7, 0.2]]}}}
        found = derived_head_set(raw, "emitted", None)
        heads = [(item["layer"], item["head"]) for item in found["heads"]]
        assert heads == [(0, 1), (1, 0), (1, 1), (0, 0)]
        assert [item["ts"] for item in found["heads"]] == [0.7, 0.7, 0.2, 0.1]
        assert (found["row"], found["model"]) == ("emitted", "m")
        assert derived_head_set(raw, "emitted", 2)["heads"] == found["heads"][:2]

    def test_no_scores_no_heads(self):
        assert derived_head_set(self.RAW, "emitted", None) is None
        assert derived_head_set(self.RAW | {"ts_matrix": None}, "predicting", None) is None
