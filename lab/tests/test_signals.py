"""Signals of drafts: records of a slow policy, and policies that are simulated on them."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

from alignatt_agent.config.agent_config import ConfigError, load_config
from lab.curves.cached_agent import CachedRuntime
from lab.curves.pareto import resampling
from lab.signals import __main__ as cli
from lab.signals.classifiers import CLASSIFIERS, at_least, predicted
from lab.signals.records import SLOWEST, Sentence, Step
from lab.signals.simulation import agreement, both, excess, gate, simulate
from tests.fakes import agent as fakes

SIGNALS = 5


def step(chunk, accepted, correct, agreeing, distances=None, signals=None):
    count = len(agreeing)
    if signals is None:
        signals = np.zeros((count, SIGNALS), np.float32)
    distances = np.array(distances or [9] * count)
    return Step(chunk, accepted, correct, signals, np.array(agreeing), distances)


SENTENCE = Sentence(
    tokens=4,
    steps=[
        step(0, 0, 2, [1, 1, 1]),  # the third token is wrong
        step(1, 0, 2, [2, 2, 2]),
        step(2, 0, 4, [3, 3, 1, 1], distances=[9, 2, 1, 0]),
    ],
    end=5,
)


@pytest.mark.parametrize(
    ("rule", "wrong", "waits"),
    [
        (agreement(1), 2, 0),
        # Two tokens wait a chunk, and two are emitted at the end.
        (agreement(2), 1, 1 + 1 + 3 + 3),
        (agreement(3), 0, 2 + 2 + 3 + 3),
        (agreement(SLOWEST), 0, 5 + 5 + 3 + 3),
        # The gate rejects the last token only.
        (gate(0), 2, 3),
        (gate(-2), 2, 3 + 3),
        (both(gate(-2), agreement(2)), 1, 1 + 1 + 3 + 3),
    ],
)
def test_wrong_decisions_and_waits(rule, wrong, waits):
    outcome = simulate([SENTENCE, SENTENCE], rule)
    assert outcome.wrong.tolist() == [wrong, wrong]
    assert outcome.waits.tolist() == [waits, waits]
    assert [value[0] for value in outcome.points(resampling(2))] == [waits / 4, wrong]


def test_a_draft_that_contradicts_the_emitted_tokens_is_not_used():
    steps = [step(0, 0, 3, [1, 1, 1]), step(1, 0, 1, [2, 1]), step(2, 0, 4, [1] * 4)]
    outcome = simulate([Sentence(4, steps, end=3)], agreement(1))
    assert (outcome.wrong.tolist(), outcome.waits.tolist()) == ([0], [0])


def test_tokens_before_the_first_draft_do_not_wait():
    outcome = simulate([Sentence(3, [step(1, 1, 2, [1, 1])], end=4)], agreement(2))
    assert (outcome.wrong.tolist(), outcome.waits.tolist()) == ([0], [3 + 3])


def random_talks(informative):
    """Return talks in which the first signal, and no other, tells whether a token is correct."""
    generator = np.random.default_rng(1)
    talks = []
    for _ in range(3):
        sentences = []
        for _ in range(30):
            steps = []
            for chunk in range(6):
                correct = int(generator.integers(0, 5))
                signals = generator.normal(size=(min(correct + 1, 4), SIGNALS))
                if informative:
                    signals[:, 0] += 4 * (np.arange(len(signals)) < correct)
                agreeing = generator.integers(1, SLOWEST, len(signals))
                steps.append(step(chunk, 0, correct, agreeing, signals=signals))
            sentences.append(Sentence(4, steps, end=6))
        talks.append(sentences)
    return talks


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classifier_is_better_only_if_a_signal_is_informative(name):
    advantages = []
    for informative in (True, False):
        talks = random_talks(informative)
        sentences = list(itertools.chain.from_iterable(talks))
        probabilities = predicted(talks, CLASSIFIERS[name]())
        levels = np.quantile(np.concatenate(list(probabilities.values())), np.linspace(0, 1, 12))
        front = [simulate(sentences, at_least(probabilities, level)) for level in levels]
        rule = simulate(sentences, agreement(2))
        differences = excess(rule, front, resampling(len(sentences)))
        low, high = np.nanpercentile(differences[1:], [2.5, 97.5])
        assert low <= differences[0] <= high
        advantages.append(differences[0])
    assert advantages[0] < -0.3
    assert abs(advantages[1]) < 0.3


class Unsure(fakes.FakeTranslation):
    """The last token of an unfinished sentence is wrong and improbable."""

    def draft(self, request):
        draft = super().draft(request)
        count = len(draft.token_ids)
        span = request.prompt.token_ids[: request.prompt.source_end]
        if not count or self.tokenizer.decode(span).endswith("."):
            return replace(draft, probabilities=(0.9,) * count)
        return replace(
            draft,
            token_ids=(*draft.token_ids[:-1], draft.token_ids[-1] + 1),
            probabilities=(*(0.9,) * (count - 1), 0.2),
        )


def test_a_talk_is_recorded_and_every_rule_is_in_the_table(call, monkeypatch, capsys):
    engines = fakes.FakeEngines(translation=Unsure(fakes.byte_tokenizer()))
    monkeypatch.setattr(CachedRuntime, "load_engines", lambda *_: engines)
    output = call.root / "signals"
    words = ("--config", call.root / "low.yaml", "--devset", call.root / "devset")
    command = [*map(str, words), "--target", "de", "zh", "--output", str(output)]
    assert cli.main(command) == 0
    content = json.loads((output / "signals.json").read_text())
    assert len(content["rows"]) == 3 * len(cli.RULES)
    with pytest.raises(ConfigError, match="--streams 0: expected a number of talks"):
        cli.main([*command, "--streams", "0"])
    table = capsys.readouterr().out
    for row in content["rows"]:
        assert row["target"] in table
        assert row["rule"] in table
        assert row["wait_s"]["value"] >= 0
    assert content["chunk_ms"] == load_config(str(call.root / "low.yaml")).chunk_ms
    assert set(content["sentences"]) == {"de", "zh"}
