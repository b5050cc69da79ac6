"""The bench pairs what it compares; nothing is timed."""

import contextlib
import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from alignatt_agent.types import Draft, Prompt
from alignatt_agent.types.engines import Readout
from lab.bench import contenders as bench_contenders
from lab.bench.__main__ import main
from lab.bench.contenders import AGAIN, CAPTURE, EAGER_HF, IDLE, PLAIN, Contender
from lab.bench.rounds import (
    COLD,
    WARM,
    BenchPrompt,
    Nonces,
    bench_prompts,
    race,
    slower,
    turn_order,
)

READOUT = Readout(((0, 0),), "predicting")
PROMPT = BenchPrompt("medium", Prompt(tuple(range(40)), 10, tuple(range(5))), 20)


def test_the_interval_is_over_starts():
    """Logarithms -0.1, 0, 0.1: deviation 0.1, and t = 4.302653 for 2 degrees of freedom."""
    rows, plain, other = ((f"{name}, compiled", WARM) for name in (CAPTURE, PLAIN, AGAIN))

    def races(factors, another=1.0):
        for factor in factors:
            figures = {rows: factor, plain: 1.0, other: another}
            yield {key: [x, 7 * x, 2 * x] for key, x in figures.items()}

    found = slower([*races(np.exp([0.02 - 0.1, 0.02, 0.02 + 0.1]))], rows, [plain])
    half = 4.302653 * 0.1 / 3**0.5
    expected = 100 * np.expm1([0.02, 0.02 - half, 0.02 + half])
    assert [found["percent"], found["low"], found["high"]] == pytest.approx(expected)
    assert found["by_start"][1] == pytest.approx(found["percent"])
    both = slower([*races([1.1, 1.2], 1.21)], rows, [plain, other])
    assert both["by_start"] == pytest.approx((0, 100 / 11))


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
    """Records its requests."""

    def __init__(self):
        self.asked = []

    def draft(self, request):
        ids = request.prompt.token_ids
        self.asked.append((ids, request.max_tokens, request.readout, request.gate))
        return Draft(tuple(range(request.max_tokens)), False)


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

    served = {(one.name, state) for one in contenders[1:] for state in (COLD, WARM)}
    assert set(result) == served | {("local", COLD)}
    assert all(len(figures) == 2 for figures in result.values())
    warm_up, cold, warm = first.asked[0], first.asked[1::2], first.asked[2::2]
    assert warm_up[0] == prompts[-1].prompt.token_ids
    assert cold == warm
    variants = {ids for ids, *_ in cold}
    assert len(variants) == 2
    # All contenders get the same cold prompts, but an engine never gets one of them twice.
    assert variants == {ids for ids, *_ in local.asked[1:]}
    theirs = [ids for ids, *_ in second.asked[2:]]
    assert set(Counter(theirs).values()) == {2}
    assert variants < set(theirs)
    assert len(set(theirs)) == 4


def test_prompts_have_three_lengths_and_nonces_keep_their_source():
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(bench_contenders.micro().model.path)
    prompts, nonces = bench_prompts(tokenizer), Nonces(len(tokenizer))
    lengths = Counter((item.name.partition("+")[0], len(item.prompt.token_ids)) for item in prompts)
    assert lengths == {("short", 60): 6, ("medium", 180): 5, ("long", 420): 5}
    assert len({item.prompt.token_ids for item in prompts}) == 16
    assert all(16 <= item.tokens <= 20 for item in prompts)
    prompt = prompts[0].prompt
    variants = [nonces.fresh(prompt) for _ in range(2000)]
    assert len({v.token_ids for v in variants}) == 2000
    begin = prompt.source_start
    assert {v.token_ids[begin:] for v in variants} == {prompt.token_ids[begin:]}
    assert max(max(v.token_ids) for v in variants) < len(tokenizer)


def test_the_engine_is_measured_over_several_starts(monkeypatch, capsys, tmp_path):
    starts = []

    @contextlib.contextmanager
    def contenders(size):
        starts.append(size)
        plain, again, capture = Engine(), Engine(), Engine()
        yield [
            Contender(f"{IDLE}, compiled", capture, served=capture),
            Contender(f"{PLAIN}, compiled", plain, served=plain),
            Contender(f"{CAPTURE}, compiled", capture, READOUT, served=capture),
            Contender(f"{AGAIN}, compiled", again, served=again),
            Contender(EAGER_HF, Engine(), READOUT),
        ]

    micro = replace(bench_contenders.micro(), seconds=0.0)
    monkeypatch.setattr(bench_contenders, "micro", lambda: micro)
    monkeypatch.setattr(bench_contenders, "contenders", contenders)
    words = ["--output", str(tmp_path), "--quick"]
    assert main(words) == 0
    assert starts == [micro] * 2
    found = json.loads((tmp_path / "engine.json").read_text())["sizes"]["micro"]
    assert len(found["percent"]["rows against plain, warm"]["by_start"]) == 2
    figures = found["race"][f"{CAPTURE}, compiled, {COLD}"]
    assert {"ms_per_token", "ratio_to_plain", "ratio_to_transformers_eager"} == figures.keys()
    assert figures["ms_per_token"]["count"] == 2 * 3
    assert "| rows against plain, warm " in capsys.readouterr().out


def test_contenders_are_started_and_ended(monkeypatch):
    started, ended = [], []

    class Served:
        def stop(self):
            ended.append(self)

        shutdown = stop

    def start(role, model, heads, enforce_eager, **options):
        started.append((bool(heads), enforce_eager))
        return Served()

    monkeypatch.setattr(bench_contenders, "start_model", start)
    monkeypatch.setattr(bench_contenders, "_reference", lambda size, seam: None)
    with bench_contenders.contenders(bench_contenders.micro()) as listed:
        assert len({contender.name for contender in listed}) == len(listed) == 10
    assert sorted(started) == sorted(bench_contenders.ENGINES)
    assert len(ended) == 2 * len(started)
    for contender in listed:
        wants_rows = contender.name.rpartition(", ")[0] not in (PLAIN, AGAIN, IDLE)
        assert (contender.readout is not None) == wants_rows
