"""The bench of policies, on random engines."""

import json
import random
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignatt_agent.config.agent_config import ConfigError
from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.cache import ResultCache
from alignatt_agent.policy import AlignAtt, EmitAll
from alignatt_agent.types import Draft
from alignatt_agent.types.engines import DraftRequest
from lab.curves.direction import Direction
from lab.curves.shared_drafts import SharedDrafts
from lab.policy_bench import __main__ as cli
from lab.policy_bench.bounds import PRICES, Search
from lab.policy_bench.numbers import SENTENCES, is_right, late_faults
from lab.policy_bench.replay import Output, replay
from lab.policy_bench.rules import RULES, Probable, Share, build_of, oracle_of
from tests.fakes.agent import FakeEngines
from tests.fakes.engine import random_engine
from tests.fakes.models import READOUT, PieceTokenizer, Prompts, make_rows

PIECES = ["</s>", " a", " b", ".", " c", "d"]
GATE = {"top_k": 8, "normalize": "none", "median_width": 1}


def direction(seed, cache=None, code="de"):
    engine = random_engine(seed, len(PIECES))
    shared = SharedDrafts(engine, cache or ResultCache(None), "random")
    return Direction(shared, Prompts(), PieceTokenizer(list(PIECES)), READOUT, language(code), 6)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_shared_drafts_are_those_of_the_engine(seed, tmp_path_factory):
    chance, engine = random.Random(seed), random_engine(seed, len(PIECES))
    path = tmp_path_factory.mktemp("drafts") / "drafts.sqlite"
    prompts = []
    for words in (["the"], ["the", "cat"]):
        accepted = ()
        for _ in range(4):
            prompts.append(Prompts().build(words, accepted))
            draft = engine.draft(DraftRequest(prompts[-1], 5, READOUT))
            accepted += draft.token_ids[: chance.randint(0, 5)]
    for again in (False, True):
        with ResultCache(path) as cache:
            shared = SharedDrafts(engine, cache, "random")
            for prompt, excluded in product(prompts, [(), (1,)]):
                request = DraftRequest(prompt, 5, READOUT, excluded=excluded)
                alone, draft = engine.draft(request), shared.draft(request)
                assert (draft.token_ids, draft.ended) == (alone.token_ids, alone.ended)
                assert len(draft.rows.source) == len(draft.token_ids)
                np.testing.assert_allclose(draft.rows.source[..., 0], alone.rows.source[..., 0])
        # Both sources are decoded to the end once, unless an accepted part ends elsewhere.
        assert shared.computed <= (0 if again else 2 * len(prompts))
    with pytest.raises(ValueError, match="only whole drafts"):
        shared.draft(DraftRequest(prompts[0], 5, READOUT, gate=AlignAtt().gate(1)))


def test_a_draft_inside_an_earlier_draft_costs_no_request():
    engine = random_engine(3, 40)
    shared = SharedDrafts(engine, ResultCache(None), "random")
    whole = shared.draft(DraftRequest(Prompts().build(["the"], ()), 8, READOUT))
    assert shared.computed == 1
    part = shared.draft(DraftRequest(Prompts().build(["the"], whole.token_ids[:3]), 5, READOUT))
    assert part.token_ids == whole.token_ids[3:8]
    assert shared.computed == 1


def test_a_replay_is_append_only_and_the_oracle_repeats_the_offline_translation():
    source = "one two three four five"
    for seed in range(20):
        ways = direction(seed)
        offline = ways.offline(source.split())
        output = replay(ways, oracle_of(offline), source, 1)
        assert output.text == ways.text(offline)
        assert list(output.heard) == sorted(output.heard)
        waiting = replay(ways, lambda _: AlignAtt(border_margin=-16), source, 1)
        assert set(waiting.heard) <= {5}
        assert waiting.text == ways.text(offline)
        whole = replay(ways, lambda _: EmitAll(), source, 2)
        assert set(whole.heard) <= {2, 4, 5}


def test_lag_counts_words_heard_beyond_those_of_an_even_translator():
    output = Output((" a", " b", " c", " d"), (1, 2, 3, 4))
    assert output.lag(4, "w x y z", spaced=True) == 1.0
    # A longer reference gives each unit fewer words.
    assert output.lag(4, "1 2 3 4 5 6 7 8", spaced=True) == 2.5 - 0.75
    characters = Output(("ab", "c"), (2, 3)).lag(3, "xyz", spaced=False)
    assert characters == pytest.approx((2 + 2 + 3) / 3 - 1)
    assert Output().lag(7, "x", spaced=True) == 7.0


def test_every_rule_replays():
    # The random engine has no probabilities.
    for label in (label for label, rule in RULES.items() if rule["name"] != "probable"):
        output = replay(direction(5), build_of(label, GATE), "one two three four", 1)
        assert len(output.units) == len(output.heard), label


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), tokens=st.integers(1, 8), source=st.integers(1, 9),
    data=st.data(),
)  # fmt: skip
def test_rules_accept_prefixes_and_more_with_a_looser_setting(seed, tokens, source, data):
    rng = np.random.default_rng(seed)
    rows = make_rows(rng.dirichlet(np.full(source + 1, 0.3), size=(tokens, 2))[:, :, :-1])
    draft = Draft(tuple(range(tokens)), False, rows, probabilities=tuple(rng.random(tokens)))
    frontier = data.draw(st.integers(0, source))

    def accepted(policy):
        count = policy.decide(draft, frontier).accepted
        assert 0 <= count <= tokens
        return count

    shares = [accepted(Share(**GATE, border_margin=0, share=p)) for p in (0.5, 0.9)]
    assert shares[0] >= shares[1]
    margins = {"border_margin": -4, "probable_margin": -1}
    probable = [accepted(Probable(**GATE, **margins, least=p)) for p in (0.0, 0.5, 1.0)]
    assert probable[0] == accepted(AlignAtt(**GATE, border_margin=-1))
    assert probable == sorted(probable, reverse=True)


def test_the_search_beats_the_policies_that_it_may_imitate():
    source, reference = "one two three four five", "a b c a d"
    for seed in range(8):
        ways = direction(seed)
        plans = Search(ways, source, reference, "13a", 1).best()
        assert set(plans) == set(PRICES)
        lags = [plans[price].lag(5, reference, True) for price in PRICES]
        assert lags == sorted(lags, reverse=True)


def test_the_search_waits_for_a_word_with_letters():
    plans = Search(direction(1), "- two three", "a b c", "13a", 1).best()
    assert all(min(plan.heard, default=2) >= 2 for plan in plans.values())


@pytest.mark.parametrize(
    ("text", "place", "target", "right"),
    [
        ("Der Server speichert 36 Kopien.", 0, "de", True),
        ("Der Server speichert 1936 Kopien.", 0, "de", False),
        ("Der Server speichert sechsunddreissig Kopien.", 0, "de", True),
        ("Der Server speichert dreißig Kopien.", 0, "de", False),
        ("服务器存储三十六个副本。", 0, "zh", True),
        ("Zwischen 1996 und 1998", 20, "de", True),
        ("Zwischen 1996 und 1999", 20, "de", False),
    ],
)
def test_numbers_are_found_in_digits_and_in_words(text, place, target, right):
    assert is_right(text, SENTENCES[place], target) is right


def test_faults_of_streaming_are_told_from_those_of_the_model():
    offline = [sentence["source"] for sentence in SENTENCES]
    offline[0] = "36"
    streamed = ["30", *offline[1:]]
    wrong = late_faults(streamed, offline, "de")
    assert wrong["stream_only"] == [0]
    assert 1 in wrong["offline"]
    assert 0 not in wrong["offline"]


class FakeRuntime:
    """A runtime without models; ``Direction.of`` is replaced, too."""

    def resolve(self, config, targets):
        return SimpleNamespace(identities=lambda: {"translation": "random"}, config=config)

    def load(self, resolved):
        return FakeEngines(translation=random_engine(4, len(PIECES)))

    def close(self):
        pass


def test_the_command_compares_rules_and_resumes(tmp_path, monkeypatch, capsys):
    texts = {"en": ["one two three four", "two one"], "de": ["a b c", "b a"]}
    (tmp_path / "ref").mkdir()
    for code, lines in texts.items():
        (tmp_path / f"ref/{code}.txt").write_text("\n".join(lines) + "\n")
    spans = "\n".join(f"- {{wav: talk.wav, offset: {k}, duration: 1}}" for k in range(2))
    (tmp_path / "audio-segments.yaml").write_text(spans)

    def fake_direction(resolved, engines, target):
        tokenizer = PieceTokenizer(list(PIECES))
        return Direction(engines.translation, Prompts(), tokenizer, READOUT, language(target), 6)

    monkeypatch.setattr(cli, "Runtime", FakeRuntime)
    monkeypatch.setattr(Direction, "of", fake_direction)
    output = tmp_path / "out"
    command = ["--devset", str(tmp_path), "--target", "de", "--output", str(output)]
    command += ["--only", "agree 3", "gate -2", "gate -8 or agree 3"]
    assert cli.main([*command, "--bounds"]) == 0
    # Drafts of all beginnings precede the rules, so that rules hardly need new drafts.
    assert capsys.readouterr().out.splitlines()[0].endswith("7 drafts, 0 new")
    found = json.loads((output / "bench-de-1.json").read_text())
    rules = {row["rule"]: row for row in found["targets"]["de"]}
    assert rules[cli.OFFLINE]["own_bleu"]["value"] == pytest.approx(100)
    assert rules["agree 3"]["lag_difference"]["value"] == 0
    assert {*command[-3:], cli.ORACLE, cli.BOUND.format(price=0)} <= set(rules)
    said = json.loads((output / "texts-bench-de-1.json").read_text())
    assert said["source"] == texts["en"]
    assert len(said["gate -2"]) == 2
    assert cli.main(command) == 0
    assert capsys.readouterr().out.count(", 0 new") == 3
    assert cli.main([*command, "--numbers"]) == 0
    assert (output / "numbers-de-1.json").exists()
    assert "40 numbers" in capsys.readouterr().out


def test_a_command_that_cannot_run_is_refused(tmp_path):
    command = ["--devset", str(tmp_path), "--output", str(tmp_path)]
    with pytest.raises(ConfigError, match="no rule agree 9; rules: .*agree 3"):
        cli.main([*command, "--only", "agree 9"])
    with pytest.raises(ConfigError, match="--words 0: expected a number of 1 or more"):
        cli.main([*command, "--words", "0"])
