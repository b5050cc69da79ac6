"""The bench pairs what it compares and prints what it writes; nothing is timed here."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alignatt_agent.doctor import speakers
from alignatt_agent.policy import AlignAtt
from alignatt_agent.types import AttentionRows, Draft, Prompt, Readout
from lab.bench import __main__ as bench
from lab.bench import contenders as bench_contenders
from lab.bench import streams as bench_streams
from lab.bench.__main__ import main
from lab.bench.contenders import CAPTURE, EAGER_HF, EARLY, IDLE, PLAIN, Contender
from lab.bench.rounds import (
    COLD,
    WARM,
    BenchPrompt,
    Nonces,
    Race,
    bench_prompts,
    paired_ratio,
    percentages,
    race,
    race_figures,
    slower,
    turn_order,
)

READOUT = Readout(((0, 0),), "predicting")
PROMPT = BenchPrompt("medium", Prompt(tuple(range(40)), 10, tuple(range(5))), 20)


# ------------------------------------------------------------------ statistics
@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=30), st.floats(0.5, 2))
def test_ratios_are_taken_pair_by_pair(noise, factor):
    """Both of a pair are disturbed alike."""
    assert paired_ratio([factor * x for x in noise], noise)["median"] == pytest.approx(factor)


def races_of(*factors, plain=(1.0, 1.0)):
    """Races in which rows take these times as long as a plain engine, start by start."""
    found = []
    for factor in factors:
        one = Race(turns=3)
        times = {f"{PLAIN}, compiled": plain[0], f"{bench_contenders.AGAIN}, compiled": plain[1],
                 f"{IDLE}, compiled": 1.05, f"{CAPTURE}, compiled": factor,
                 f"{PLAIN}, eager": 3.0, EAGER_HF: 5.0}  # fmt: skip
        for name, figure in times.items():
            for state in (COLD, WARM) if name != EAGER_HF else (COLD,):
                one.milliseconds[name, state] = [figure * x for x in (1.0, 7.0, 2.0)]
                one.cpu[name, state] = [0.5] * 3
        found.append(one)
    return found


def test_the_interval_is_over_starts():
    # Logarithms -0.1, 0, 0.1: deviation 0.1, and t = 4.303 for 2 degrees of freedom.
    races = races_of(*np.exp([0.02 - 0.1, 0.02, 0.02 + 0.1]))
    rows, plain = (f"{CAPTURE}, compiled", WARM), (f"{PLAIN}, compiled", WARM)
    found = slower(races, rows, [plain])
    half = 4.303 * 0.1 / 3**0.5
    assert found["percent"] == pytest.approx(100 * (np.exp(0.02) - 1))
    assert (found["low"], found["high"]) == pytest.approx(
        (100 * (np.exp(0.02 - half) - 1), 100 * (np.exp(0.02 + half) - 1))
    )
    assert found["by_start"][1] == pytest.approx(found["percent"])
    other = (f"{bench_contenders.AGAIN}, compiled", WARM)
    both = slower(races_of(1.1, 1.2, plain=(1.0, 1.21)), rows, [plain, other])
    assert both["by_start"] == pytest.approx((0, 100 / 11))


# ------------------------------------------------------------------ order
@pytest.mark.parametrize("number", [2, 3, 10])
def test_every_prompt_sees_every_contender_equally_often_in_every_place(number):
    names, prompts = list("abcdefghij")[:number], 16
    # One rotation takes as many rounds as there are contenders, and a turned one as many.
    for prompt in range(prompts):
        turns = [prompt + prompts * number_ for number_ in range(2 * number)]
        orders = [turn_order(names, turn, prompts) for turn in turns]
        places = Counter((name, place) for order in orders for place, name in enumerate(order))
        assert all(sorted(order) == names for order in orders)
        assert set(places.values()) == {2}


class Engine:
    """Notes what it is asked."""

    def __init__(self, length=None):
        self.asked = []
        self.length = length
        self.pids = []

    def draft(self, prompt, max_tokens, readout=None, gate=None):
        self.asked.append((prompt.token_ids, max_tokens, readout, gate))
        return Draft(tuple(range(self.length or max_tokens)), False)


def test_a_race_pairs_contenders_on_the_same_prompt():
    local, first, second = Engine(), Engine(), Engine()
    contenders = [
        Contender("local", local, READOUT),
        Contender("first", first, served=first),
        Contender("second", second, readout=READOUT, served=second),
        Contender("second + gate", second, readout=READOUT, gated=True, served=second),
    ]
    prompts = [PROMPT, BenchPrompt("short", Prompt(tuple(range(60, 90)), 10, (0, 1)), 16)]
    result = race(contenders, prompts, Nonces(1000), 0.0, "test")

    assert result.turns == 2
    states = {"local": (COLD,), "first": (COLD, WARM), "second": (COLD, WARM),
              "second + gate": (COLD, WARM)}  # fmt: skip
    assert set(result.milliseconds) == {(n, s) for n, both in states.items() for s in both}
    assert all(len(figures) == 2 for figures in result.milliseconds.values())
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


def test_a_draft_of_another_length_is_no_figure():
    with pytest.raises(RuntimeError, match="short drafted 3 of 20 tokens"):
        Contender("short", Engine(3)).milliseconds(PROMPT.prompt, 20)


def test_the_open_gate_never_closes():
    rows = np.zeros((4, 2, 5), np.float32)
    rows[..., -1] = 1
    draft = Draft((1, 2, 3, 4), False, AttentionRows(rows, rows[..., 0], rows[..., 0]))
    gate = bench_contenders.open_gate(PROMPT.prompt)
    assert AlignAtt(**gate.settings).decide(draft, gate.frontier).accepted == 4


# ------------------------------------------------------------------ prompts
@pytest.fixture(scope="module")
def tokenizer():
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(bench_contenders.micro().model.path)


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


# ------------------------------------------------------------------ report
def test_what_requests_leave_behind_is_counted():
    class Served(Engine):
        def ask_workers(self, method):
            return [len(self.asked) if method == "alignatt_held" else None]

    contenders = [
        Contender(f"{kind}, compiled", engine, READOUT, served=engine)
        for kind, engine in ((PLAIN, Served()), (CAPTURE, Served()))
    ]
    found = bench.memory_of(contenders, PROMPT.prompt, 150)
    assert (found["requests"], found["rows_held"]) == (150, 150)
    assert found["early_resident_bytes"] == found["resident_bytes"] == 0


def test_the_report_is_printed_from_what_is_written():
    races = races_of(1.1, 1.1, plain=(1.0, 0.98))
    figures = race_figures(races)
    entry = figures[f"{CAPTURE}, compiled, {COLD}"]
    assert entry["ms_per_token"] == pytest.approx(
        {"median": 2.2, "q1": 1.375, "q3": 6.325, "count": 6}
    )
    assert entry["ratio_to_plain"]["median"] == pytest.approx(1.1)
    assert entry["ratio_to_transformers_eager"]["median"] == pytest.approx(0.22)
    memory = {"plain_resident_bytes": 2**29, "early_resident_bytes": 2**30,
              "resident_bytes": 2**30, "requests": 1000, "rows_held": 0}  # fmt: skip
    size = {"checkpoint": "gemma4", "weight_bytes": 2**23, "turns": [3, 3], "race": figures,
            "percent": percentages(races), "memory": memory}  # fmt: skip
    report = {"device": "cpu: test", "threads": 1, "sizes": {"micro": size}}
    text = "\n".join(bench.lines(json.loads(json.dumps(report))))
    assert "micro: gemma4, 8.0 MiB of weights" in text
    assert f"{CAPTURE}, compiled" in text
    assert "2.2 (1.38-6.33)" in text
    assert "2 starts" in text
    assert text.count("-2.0 (-2.0 to -2.0)") == 2  # the noise floor, cold and warm
    assert "1024.0 after 1000, 0 rows held" in text


def test_the_engine_is_measured_over_several_starts(monkeypatch, capsys, tmp_path):
    starts = []

    class Served(Engine):
        def ask_workers(self, method):
            return [0]

    @contextlib.contextmanager
    def contenders(size):
        starts.append(size)
        plain, again, capture = Served(), Served(), Served()
        yield [
            Contender(f"{IDLE}, compiled", capture, served=capture),
            Contender(f"{PLAIN}, compiled", plain, served=plain),
            Contender(f"{CAPTURE}, compiled", capture, READOUT, served=capture),
            Contender(f"{bench_contenders.AGAIN}, compiled", again, served=again),
            Contender(EAGER_HF, Engine(), READOUT),
        ]

    micro = replace(bench_contenders.micro(), seconds=0.0)
    monkeypatch.setattr(bench_contenders, "micro", lambda: micro)
    monkeypatch.setattr(bench_contenders, "free_memory", lambda: 8 * 2**30)
    monkeypatch.setattr(bench, "contenders", contenders)
    words = ["--output", str(tmp_path), "--only", "engine", "--quick", "--requests", "120"]
    assert main(words) == 0
    assert starts == [micro] * 2
    report = json.loads((tmp_path / "engine.json").read_text())
    assert report["sizes"]["micro"]["turns"] == [3, 3]
    assert len(report["sizes"]["micro"]["percent"]["rows against plain, warm"]["by_start"]) == 2
    out = capsys.readouterr().out
    assert "compiled, 2 starts: % slower" in out
    assert "after 120, 0 rows held" in out


def test_a_bench_that_would_swap_is_not_started(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(bench_contenders, "free_memory", lambda: 8 * 2**30)
    bench_contenders.check_memory(bench_contenders.micro())
    monkeypatch.setattr(bench_contenders, "free_memory", lambda: 2**30)
    assert main(["--output", str(tmp_path), "--quick"]) == 1
    assert "needs 5.1 GiB of free memory for 5 engines" in capsys.readouterr().err
    assert not (tmp_path / "engine.json").exists()


@pytest.mark.parametrize(
    ("engines", "seams", "names"),
    [
        (
            range(5),
            ("eager", "sdpa"),
            [
                f"{IDLE}, compiled",
                f"{PLAIN}, compiled",
                f"{CAPTURE}, compiled",
                f"{bench_contenders.AGAIN}, compiled",
                f"{EARLY}, compiled",
                EAGER_HF,
                f"{CAPTURE}, eager",
                f"{PLAIN}, eager",
                f"{EARLY}, eager",
                bench_contenders.FUSED_HF,
            ],
        ),
        ((2, 3), (), [f"{CAPTURE}, eager", f"{PLAIN}, eager", f"{EARLY}, eager"]),
    ],
)
def test_contenders_can_be_chosen(monkeypatch, engines, seams, names):
    started, ended = [], []

    class Served:
        def __init__(self, heads, eager):
            started.append((bool(heads), eager))

        def stop(self):
            ended.append(self)

        shutdown = stop

    def start(role, model, heads, enforce_eager, **options):
        return Served(heads, enforce_eager)

    monkeypatch.setattr(bench_contenders.pool, "start", start)
    monkeypatch.setattr(bench_contenders, "_reference", lambda size, seam: None)
    size = bench_contenders.micro()
    with bench_contenders.contenders(size, engines, seams) as listed:
        assert [contender.name for contender in listed] == names
    assert sorted(started) == sorted(bench_contenders.ENGINES[place] for place in engines)
    assert len(ended) == 2 * len(started)
    for contender in listed:
        wants_rows = contender.name.rpartition(", ")[0] not in (PLAIN, bench_contenders.AGAIN, IDLE)
        assert (contender.readout is not None) == wants_rows
        assert contender.gated == contender.name.startswith(EARLY)


def test_a_reference_may_have_random_weights(checkpoints):
    from alignatt_agent.engine.transformers_engine import TransformersEngine

    path = str(checkpoints / "gemma4")
    loaded, drawn = (TransformersEngine(path, random=random) for random in (False, True))
    weights = [engine.model.get_input_embeddings().weight for engine in (loaded, drawn)]
    assert weights[0].shape == weights[1].shape
    assert not (weights[0] == weights[1]).all()
    assert len(drawn.draft(PROMPT.prompt, 3).token_ids) <= 3


def test_help_names_the_contenders():
    text = bench.build_parser().format_help()
    assert all(name in text for name in (EAGER_HF, PLAIN, CAPTURE, EARLY))


# ------------------------------------------------------------------ streams
def test_early_stop_must_emit_the_same_and_save_steps():
    row = {"identical": True, "drafts_that_agree": 1, "steps_per_token_early": 1.9}
    assert bench_streams.saves([row, row | {"drafts_that_agree": 2, "steps_per_token_early": 2.5}])
    assert not bench_streams.saves([row, row | {"identical": False}])
    assert not bench_streams.saves([row | {"steps_per_token_early": 2.1}])


def test_excerpts_take_talks_and_targets_in_turn():
    from pathlib import Path

    talks = speakers.talks(Path("micro_models/devset"))
    jobs = speakers.excerpts(Path("micro_models/devset"), ["de", "it"], 6, 10.0)
    assert [target for _, target in jobs] == ["de", "it"] * 3
    assert {len(audio) for audio, _ in jobs} == {160_000}
    assert (jobs[1][0] == talks[1][:160_000]).all()
    assert len({audio.tobytes() for audio, _ in jobs}) == 6
