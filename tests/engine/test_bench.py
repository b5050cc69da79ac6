"""Statistics, verdicts and the order of the bench; nothing is timed here."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from alignatt_agent.checks import bench_contenders, bench_duel, bench_report
from alignatt_agent.checks.bench import FULL, QUICK, build_parser, main
from alignatt_agent.checks.bench_contenders import Contender, open_gate
from alignatt_agent.checks.bench_duel import IDLE, OTHER, ROWS, duel, duel_figures, split
from alignatt_agent.checks.bench_parts import early_stop
from alignatt_agent.checks.bench_prompts import (
    BenchPrompt,
    Nonces,
    bench_prompts,
    sentences,
    streamed,
)
from alignatt_agent.checks.bench_report import CAPTURE, EAGER_HF, PLAIN, bars, race_figures
from alignatt_agent.checks.bench_rounds import COLD, WARM, Race, race, turn_order
from alignatt_agent.checks.bench_statistics import (
    Bar,
    estimate,
    paired_difference,
    paired_ratio,
    slowdown_bar,
    speedup_bar,
    spread,
)
from alignatt_agent.checks.bench_worker import WorkerProbe, _bytes
from alignatt_agent.policy import AlignAtt
from alignatt_agent.types import AttentionRows, Draft, Prompt, Readout

READOUT = Readout(((0, 0),), "predicting")
PROMPT = BenchPrompt("medium", Prompt(tuple(range(40)), 10, tuple(range(5))), 20)


# ------------------------------------------------------------------ statistics
def test_a_spread_is_median_and_quartiles():
    found = spread([5.0, 1.0, 2.0, 4.0, 3.0])
    assert (found.median, found.q1, found.q3, found.count) == (3.0, 2.0, 4.0, 5)
    for bad in ([], [1.0, float("nan")], [float("inf")]):
        with pytest.raises(ValueError, match="expected finite figures"):
            spread(bad)


def test_ratios_are_taken_pair_by_pair():
    # Both of a pair are disturbed alike: unpaired medians would say 100 / 12.
    plain, capture = [10.0, 100.0, 1000.0], [11.0, 110.0, 1100.0]
    assert paired_ratio(capture, plain).median == pytest.approx(1.1)
    assert paired_ratio([12.0, 100.0, 3000.0], [10.0, 100.0, 1000.0]).median == pytest.approx(1.2)
    assert paired_difference(capture, plain).median == pytest.approx(10.0)
    for paired in (paired_ratio, paired_difference):
        with pytest.raises(ValueError, match="argument 2 is shorter"):
            paired([1.0, 2.0], [1.0])


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=30), st.floats(0.5, 2))
def test_a_constant_factor_is_found_whatever_the_noise(noise, factor):
    ours = [factor * x for x in noise]
    assert paired_ratio(ours, noise).median == pytest.approx(factor)
    assert speedup_bar("x", noise, ours, 1.0).figure == pytest.approx(factor)


def test_the_interval_is_over_starts():
    # Logarithms -0.1, 0, 0.1: deviation 0.1, and t = 4.303 for 2 degrees of freedom.
    found = estimate(np.exp([0.02 - 0.1, 0.02, 0.02 + 0.1]))
    half = 4.303 * 0.1 / 3**0.5
    assert found.percent == pytest.approx(100 * (np.exp(0.02) - 1))
    assert (found.low, found.high) == pytest.approx(
        (100 * (np.exp(0.02 - half) - 1), 100 * (np.exp(0.02 + half) - 1))
    )
    assert found.by_start[1] == pytest.approx(found.percent)
    same = estimate([1.05] * 5)
    assert (same.percent, same.low, same.high) == pytest.approx((5, 5, 5))
    for bad in ([1.0], [1.0] * 11):
        with pytest.raises(ValueError, match="expected 2 to 10 starts"):
            estimate(bad)


def test_a_slowdown_is_shown_beside_its_noise_floor():
    bar = slowdown_bar("x", estimate([1.02, 1.04]), estimate([0.98, 1.02]), 3.0)
    assert bar.figure == pytest.approx(3.0, abs=0.01)
    assert "over 2 starts; plain against another plain -0.02 %" in bar.detail
    assert not slowdown_bar("x", estimate([1.02, 1.05]), estimate([1, 1]), 3.0).met


@pytest.mark.parametrize(
    ("figure", "limit", "at_least", "met"),
    [(3.0, 3.0, True, True), (2.9, 3.0, True, False), (3.0, 3.0, False, True),
     (3.1, 3.0, False, False), (float("nan"), 3.0, False, False)],
)  # fmt: skip
def test_verdicts(figure, limit, at_least, met):
    bar = Bar("name", figure, limit, at_least)
    assert bar.met is met
    assert str(bar).startswith("ok " if met else "missed ")
    assert bar.as_dict()["met"] is met


# ------------------------------------------------------------------ order
@pytest.mark.parametrize("count", [2, 3, 8])
def test_every_prompt_sees_every_contender_equally_often_in_every_place(count):
    names = list("abcdefgh")[:count]
    prompts = 16
    # One rotation takes ``count`` rounds and a turned one as many.
    for prompt in range(prompts):
        turns = [prompt + prompts * number for number in range(2 * count)]
        orders = [turn_order(names, turn, prompts) for turn in turns]
        places = Counter((name, place) for order in orders for place, name in enumerate(order))
        assert all(sorted(order) == names for order in orders)
        assert set(places.values()) == {2}


def test_two_contenders_alternate_who_is_first():
    assert ["".join(turn_order("ab", turn, 16)) for turn in range(4)] == ["ab", "ba", "ba", "ab"]


class Engine:
    """Notes what it is asked."""

    def __init__(self, length=None):
        self.asked = []
        self.length = length

    def draft(self, prompt, max_tokens, readout=None, gate=None):
        self.asked.append((prompt.token_ids, max_tokens, readout, gate))
        return Draft(tuple(range(self.length or max_tokens)), False)

    def cpu_seconds(self):
        return float(len(self.asked))


def owned(name, engine, **options):
    return Contender(name, engine, owner=engine, **options)


def test_a_race_pairs_contenders_on_the_same_prompt():
    local, first, second = Engine(), Engine(), Engine()
    contenders = [
        Contender("local", local, READOUT),
        owned("first", first),
        owned("second", second, readout=READOUT),
        owned("second + gate", second, readout=READOUT, gated=True),
    ]
    prompts = [PROMPT, BenchPrompt("short", Prompt(tuple(range(60, 90)), 10, (0, 1)), 16)]
    result = race(contenders, prompts, Nonces(1000), 0.0, "test")

    assert result.prompts == prompts
    states = {"local": (COLD,), "first": (COLD, WARM), "second": (COLD, WARM),
              "second + gate": (COLD, WARM)}  # fmt: skip
    assert set(result.milliseconds) == {(n, s) for n, both in states.items() for s in both}
    assert all(len(figures) == 2 for figures in result.milliseconds.values())
    assert len(result.of("first", WARM, lambda p: p.name == "short")) == 1
    assert result.of("local", WARM) == []
    assert result.busy > 0
    # The fake's processor time is a second a draft.
    assert result.engine_cpu["first", COLD] == pytest.approx((1000 / 20 + 1000 / 16) / 2)
    assert result.idle_cpu == 0

    warm_up, cold, warm = first.asked[0], first.asked[1::2], first.asked[2::2]
    assert warm_up[0] == prompts[-1].prompt.token_ids
    assert cold == warm
    variants = {ids for ids, *_ in cold}
    assert len(variants) == 2
    # Everybody's cold prompts are the same, but one engine never gets one of them twice.
    assert variants == {ids for ids, *_ in local.asked[1:]}
    theirs = [ids for ids, *_ in second.asked[2:]]
    assert set(Counter(theirs).values()) == {2}
    assert variants < set(theirs)
    assert len(set(theirs)) == 4
    for ids, tokens, readout, gate in second.asked:
        assert (len(ids), tokens) in {(40, 20), (30, 16)}
        assert readout is READOUT
        assert gate is None or gate.frontier > len(ids)


def test_a_duel_starts_its_engines_anew_each_round(monkeypatch):
    started, running = [], []

    @contextlib.contextmanager
    def start(size, heads, eager):
        engine = Engine()
        engine.drafts, engine.heads = engine, heads
        started.append(engine)
        running.append(engine)
        assert not eager
        assert len(running) <= 3
        yield engine
        running.remove(engine)

    monkeypatch.setattr(bench_duel, "running", start)
    size = SimpleNamespace(name="micro", heads=READOUT.heads)
    rounds = duel(size, [PROMPT], Nonces(1000), 3, 0.0)

    assert running == []
    assert len(started) == 9
    assert sum(bool(engine.heads) for engine in started) == 3
    assert [set(one.milliseconds) for one in rounds] == 3 * [
        {(who, state) for who in (bench_duel.PLAIN, OTHER, IDLE, ROWS) for state in (COLD, WARM)}
    ]
    for engine in started:
        readouts = [readout for _, _, readout, _ in engine.asked]
        assert (READOUT in readouts) == bool(engine.heads)
        assert None in readouts


def rounds_of(*factors, plain=(1.0, 1.0), idle=1.0):
    """A duel in which rows take these times as long as a plain engine, round by round."""
    found = []
    for factor in factors:
        result = Race(prompts=[PROMPT] * 3)
        for state in (COLD, WARM):
            for who, times in ((bench_duel.PLAIN, plain[0]), (OTHER, plain[1]), (IDLE, idle),
                               (ROWS, factor)):  # fmt: skip
                result.milliseconds[who, state] = [times * x for x in (1.0, 7.0, 2.0)]
        found.append(result)
    return found


def test_a_duel_compares_with_both_plain_engines():
    rounds = rounds_of(1.1, 1.2, plain=(1.0, 1.21), idle=1.05)
    assert split(rounds, "rows against plain", WARM).by_start == pytest.approx((0, 100 / 11))
    assert split(rounds, "plain against another plain", COLD).by_start == pytest.approx((21, 21))
    assert split(rounds, "idle capture against plain", WARM).percent == pytest.approx(
        100 * 1.05 / 1.1 - 100
    )
    assert split(rounds, "rows against idle capture", WARM).by_start == pytest.approx(
        (110 / 1.05 - 100, 120 / 1.05 - 100)
    )
    figures = duel_figures(rounds)
    assert figures["turns"] == [3, 3]
    assert figures["ms_per_token"]["capture, rows, warm"] == pytest.approx([2.2, 2.4])
    assert len(figures["percent"]) == 8


def test_a_draft_of_another_length_is_no_figure():
    with pytest.raises(RuntimeError, match="short drafted 3 of 20 tokens"):
        Contender("short", Engine(3)).milliseconds(PROMPT.prompt, 20)


def test_the_open_gate_never_closes():
    rows = np.zeros((4, 2, 5), np.float32)
    rows[..., -1] = 1
    draft = Draft((1, 2, 3, 4), False, AttentionRows(rows, rows[..., 0], rows[..., 0]))
    gate = open_gate(PROMPT.prompt)
    assert AlignAtt(**gate.settings).decide(draft, gate.frontier).accepted == 4


# ------------------------------------------------------------------ prompts
@pytest.fixture(scope="module")
def tokenizer():
    return bench_contenders.prompt_tokenizer()


def test_sixteen_prompts_of_three_lengths(tokenizer):
    prompts = bench_prompts(tokenizer)
    assert Counter(p.name for p in prompts) == {
        "short": 3, "medium": 3, "long": 3, "short+prefix": 3, "medium+prefix": 2, "long+prefix": 2,
    }  # fmt: skip
    for item in prompts:
        kind, _, prefix = item.name.partition("+")
        assert len(item.prompt.token_ids) == {"short": 60, "medium": 180, "long": 420}[kind]
        assert 16 <= item.tokens <= 20
        assert 0 < item.prompt.source_start < item.prompt.source_end < 420
        assert list(item.prompt.token_word) == sorted(item.prompt.token_word)
        tail = tokenizer.decode(item.prompt.token_ids[item.prompt.source_end :])
        assert tail.startswith("\n\nTranslate into German.")
        assert tail.endswith("model\n") != bool(prefix)
    assert [p.is_reference for p in prompts].count(True) >= 1
    assert len({p.prompt.token_ids for p in prompts}) == 16
    assert bench_prompts(tokenizer) == prompts


def test_nonces_are_never_repeated_and_keep_the_source(tokenizer):
    prompt, nonces = bench_prompts(tokenizer, 1)[0].prompt, Nonces(len(tokenizer))
    variants = [nonces.fresh(prompt) for _ in range(2000)]
    assert len({v.token_ids for v in variants}) == 2000
    begin = prompt.source_start
    assert {v.token_ids[begin:] for v in variants} == {prompt.token_ids[begin:]}
    assert {len(v.token_ids) for v in variants} == {len(prompt.token_ids)}
    assert max(max(v.token_ids) for v in variants) < len(tokenizer)


def test_sentences_have_their_references():
    pairs = sentences()
    assert pairs[0] == ("She has built our windows.", "Sie hat unsere Fenster gebaut.")
    assert all(source and target for source, target in pairs)


def test_streamed_sources_grow_and_hold_the_last_word_back():
    shown = list(streamed("a b c d e f g"))
    assert [len(words) for words, _ in shown] == [3, 5]
    assert all(accessible == len(words) - 1 for words, accessible in shown)


def test_early_stop_must_decide_like_draft_then_scan(tokenizer, monkeypatch):
    class Drafts:
        def __init__(self, model, heads, stops):
            pass

        def draft(self, prompt, max_tokens, readout, gate=None):
            ids = (7, 8) if gate is None else (7, 9)
            rows = np.zeros((2, 1, len(prompt.token_word)), np.float32)
            rows[..., 0] = 1
            return Draft(ids, False, AttentionRows(rows, rows[..., 0], rows[..., 0]), steps=2)

    monkeypatch.setattr("alignatt_agent.checks.bench_parts.DraftEngine", Drafts)
    monkeypatch.setattr("alignatt_agent.checks.bench_parts.stop_ids", lambda model: ())
    size = SimpleNamespace(name="micro", heads=READOUT.heads)
    with pytest.raises(RuntimeError, match="accept different tokens"):
        early_stop(SimpleNamespace(model=None), size, READOUT, tokenizer, 3)


# ------------------------------------------------------------------ the worker's probe
def test_the_clock_counts_and_goes_away():
    class Capture:
        def begin(self, step):
            return [step]

        def finish(self, work, total):
            return None

        def fetch(self, key):
            raise KeyError(key)

    class Worker(WorkerProbe):
        def __init__(self):
            self._capture = Capture()

    worker = Worker()
    worker.alignatt_start_clock()
    assert worker._capture.begin(1) == [1]
    worker._capture.begin(2)
    with pytest.raises(KeyError):
        worker._capture.fetch("x")
    clock = worker.alignatt_stop_clock()
    assert {phase: count[0] for phase, count in clock.items()} == {
        "begin": 2, "finish": 0, "fetch": 1,
    }  # fmt: skip
    assert "begin" not in vars(worker._capture)
    assert worker._capture.begin(3) == [3]
    assert clock["begin"][0] == 2


def test_shared_and_foreign_memory_counts_once_or_not_at_all():
    class Owner:
        pass

    Owner.__module__ = "alignatt_agent.engine.somewhere"
    cache, mine = torch.zeros(1000), torch.zeros(10)
    owner, inner = Owner(), Owner()
    owner.parts = [mine, mine.numpy(), mine[:5], {"cache": cache.view(10, 100)[2:].numpy()}]
    inner.above, inner.more = owner, np.zeros(3, np.int64)
    owner.inner, owner.other = inner, SimpleNamespace(theirs=np.zeros(99))
    begin = cache.untyped_storage().data_ptr()
    assert _bytes(owner, [(begin, begin + 4000)]) == 40 + 24


# ------------------------------------------------------------------ report
def synthetic(capture=1.1, eager=5.0):
    result = Race(prompts=[PROMPT] * 3, busy=3.0, idle_cpu=0.03)
    for mode, base in (("eager", 3.0), ("compiled", 1.0)):
        for state in (COLD, WARM):
            noise = [base, 7 * base, 2 * base]
            result.milliseconds[f"{PLAIN}, {mode}", state] = noise
            result.milliseconds[f"{CAPTURE}, {mode}", state] = [capture * x for x in noise]
    result.milliseconds[EAGER_HF, COLD] = [eager * x for x in (1.0, 7.0, 2.0)]
    return result


STOP = {
    "draft-then-scan": {"steps_per_accepted_token": 6.0},
    "early stop": {"steps_per_accepted_token": 1.9},
}


def test_bars_of_the_issue():
    good = bars("micro", synthetic(), rounds_of(1.1, 1.1), STOP)
    assert len(good) == 5
    assert all(bar.met for bar in good)
    assert [round(bar.figure, 2) for bar in good] == [10.0, 10.0, 4.55, 4.55, 1.9]
    # 10 % is too slow on the larger model, while 4.5 times is more than enough there.
    larger = bars("larger", synthetic(), rounds_of(1.1, 1.1), None)
    assert [bar.met for bar in larger] == [False, False, True, True]
    slow = bars("micro", synthetic(1.2, 3.0), rounds_of(1.1, 1.3), None)
    assert [bar.met for bar in slow] == [False, False, False, False]
    # One slow start among fast ones is not the figure.
    mixed = bars("micro", synthetic(), rounds_of(1.0, 1.3, 1.0, 1.0), None)
    assert [bar.met for bar in mixed] == [True] * 4
    assert "over 4 starts" in mixed[0].detail


def test_the_report_is_printed_from_what_is_written():
    figures = race_figures(synthetic())
    entry = figures[f"{CAPTURE}, compiled, {COLD}"]
    assert entry["ms_per_token"]["median"] == pytest.approx(2.2)
    assert entry["ms_per_token_180_20"]["count"] == 3
    assert entry["by_prompt"]["medium"]["count"] == 3
    assert entry["ratio_to_plain"]["median"] == pytest.approx(1.1)
    assert entry["ratio_to_transformers_eager"]["median"] == pytest.approx(0.22)
    parts = {"begin": 0.1, "finish": 0.2, "fetch": 0.05, "replay": 0.35, "replay_cpu": 0.3,
             "call": 0.3, "whole": 0.9}  # fmt: skip
    report = {
        "device": "cpu: test", "threads": 1,
        "sizes": {"micro": {
            "checkpoint": "micro_models/gemma4", "parameters": 2_200_000, "race": figures,
            "duel": duel_figures(rounds_of(1.1, 1.2, plain=(1.0, 0.98))),
            "replay": [{"heads": 8, **parts}],
            "streams": [{"streams": 16, "tokens_per_s": 1234.0, "drafts_per_s": 60.0}],
            "early_stop": None,
            "memory": {"resident_bytes": 2**30, "plain_resident_bytes": 2**29,
                       "capture_bytes": 2**20, "requests": 1000, "rows_held": 0},
            "idle_cpu_share": 0.5,
        }},
        "bars": [{"line": str(bar)} for bar in bars("micro", synthetic(), rounds_of(1.1, 1), None)],
    }  # fmt: skip
    text = "\n".join(bench_report.lines(json.loads(json.dumps(report))))
    assert "2.2 M parameters" in text
    assert f"{CAPTURE}, compiled" in text
    assert "2.2 (1.65-4.95)" in text
    assert "16: 1234 tokens/s" in text
    assert "2 starts of each engine" in text
    assert text.count("-2.0 (-2.0 to -2.0)") == 2  # the noise floor, cold and warm
    assert "rows held of 1000 requests: 0" in text
    assert "they compete" in text
    assert "\nok     micro: capture of 8 heads" in text


def test_a_bench_that_would_swap_is_not_started(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(bench_contenders, "free_memory", lambda: 8 * 2**30)
    assert bench_contenders.lacking_memory(bench_contenders.micro()) == ""
    monkeypatch.setattr(bench_contenders, "free_memory", lambda: 2**30)
    assert main(["--output", str(tmp_path), "--quick"]) == 1
    assert "needs 4.0 GiB of free memory for 4 engines" in capsys.readouterr().err
    assert not (tmp_path / "engine.json").exists()


def test_a_plan_for_every_size_and_help_that_names_the_contenders():
    for plan in (FULL, QUICK):
        for part in (plan.race, plan.duel, plan.rounds, plan.requests):
            assert set(part) == {"micro", "larger"}
    text = build_parser().format_help()
    for name in (EAGER_HF, PLAIN, CAPTURE):
        assert name in text
