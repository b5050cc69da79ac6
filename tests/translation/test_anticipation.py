"""Anticipated continuations: their words, and the drafted tokens that they confirm."""

from itertools import islice

import pytest

from alignatt_agent.policy import AlignAtt, AlignAttOrAgreement
from alignatt_agent.translation.anticipation import TOKENS, Anticipator
from alignatt_agent.translation.translator import Translator
from alignatt_agent.translation.units import UnitDecoder
from alignatt_agent.types import Draft, DraftContext, SourceView
from tests.fakes.models import (
    READOUT,
    PieceTokenizer,
    Prompts,
    ScriptedEngine,
    make_rows,
    make_words,
)


@pytest.mark.parametrize(
    ("heard", "continuation", "ended", "words"),
    [
        ("the house", " is very old now", False, "the house is very old"),
        ("the house", " is very old now", True, "the house is very old now"),
        ("the house", " is old\nThe speaker", False, "the house is old"),
        ("the house", ". It is old", False, "the house."),
        ("the house", " is old. It has", False, "the house is old."),
        ("the house", " of Mr. Bean costs 3.5", True, "the house of Mr. Bean costs 3.5"),
        ("the house", "hold is old now", False, "the house is old"),
        ("the house", "hold", False, "the house"),
        ("the house.", " It is old", False, "the house."),
        ("the house", "", True, "the house"),
        ("a", " b c d e f g h i j", False, "a b c d e f g"),
        ("我们", "用GPU来", False, "我 们 用 GPU"),
    ],
)  # fmt: skip
def test_words_of_a_continuation(heard, continuation, ended, words):
    tokenizer = PieceTokenizer()
    drafts = [Draft(tokenizer.ids(continuation), ended), Draft(tokenizer.ids(" x"), True)]
    engine = ScriptedEngine(drafts)
    anticipator = Anticipator(engine.draft, Prompts(), UnitDecoder(tokenizer, True))
    tokens = tokenizer.ids(" x", " y")
    heard_words = list(heard) if heard == "我们" else heard.split()
    found = anticipator.surviving(Prompts().build, heard_words, (), (), tokens)
    assert list(found) == [1]
    (first, first_limit, _), (second, second_limit, _) = engine.calls
    assert first.token_ids == Prompts().bare("".join(heard)).token_ids
    assert second == Prompts().build(words.split())
    assert (first_limit, second_limit) == (TOKENS, 2)
    assert engine.expected == [(), tokens]


def test_continuations_follow_different_numbers_of_sentences():
    tokenizer = PieceTokenizer()
    engine = ScriptedEngine([Draft((), True)] * 6)
    anticipator = Anticipator(engine.draft, Prompts(), UnitDecoder(tokenizer, True))
    spoken = ("It rains.", "We wait.")
    counts = anticipator.surviving(Prompts().build, ["the"], spoken, (), tokenizer.ids(" x"))
    assert list(counts) == [0, 0, 0]
    texts = ["the", "We wait. the", "It rains. We wait. the"]
    assert [call[0] for call in engine.calls[::2]] == [Prompts().bare(text) for text in texts]


class Stream:
    """A translator whose gate accepts everything and anticipates twice."""

    def __init__(self, **settings):
        self.tokenizer, self.engine = PieceTokenizer(), ScriptedEngine([])
        keys = {"border_margin": 0, "normalize": "none", "median_width": 1, "anticipations": 2}
        policy = AlignAtt(**{**keys, **settings})
        self.translator = Translator(
            self.engine, Prompts(), self.tokenizer, READOUT, policy, True, 16, early_stop=False
        )

    def draft(self, text, peaks=None):
        """Return a draft of the pieces; ``peaks`` are the source tokens with all attention."""
        ids = self.tokenizer.ids(*(f" {piece}" for piece in text.split()))
        if peaks is None:
            return Draft(ids, False)
        rows = make_rows([[[float(place == peak) for place in range(8)]] * 2 for peak in peaks])
        return Draft(ids, False, rows)

    def update(self, source, accessible, *drafts):
        self.engine.drafts = [*drafts]
        emission = self.translator.update(SourceView(make_words(source), accessible))
        assert not self.engine.drafts
        return [unit.strip() for unit in emission.units]


def test_tokens_that_change_with_a_continuation_are_held_back():
    stream = Stream()
    stream.translator.remember([("It rains.", "")])
    drafts = [
        stream.draft("das Haus ist rot", [0, 0, 0, 0]),
        stream.draft("was"), stream.draft("das Haus ist alt"),
        stream.draft("has"), stream.draft("das Haus hat"),
    ]  # fmt: skip
    assert stream.update("thehouse is", 2, *drafts) == ["das", "Haus"]
    gated = stream.translator.gated
    assert gated.decision.reason == "anticipation"
    # Only accessible words are continued, and the accepted translation precedes the tokens.
    drafts = [
        stream.draft("ist rot", [0, 0]),
        stream.draft("was"), stream.draft("war"),
    ]  # fmt: skip
    assert stream.update("thehouse isred", 1, *drafts) == []
    _, continued, verified = (call[0] for call in stream.engine.calls[-3:])
    assert continued == Prompts().bare("thehouse")
    accepted = stream.tokenizer.ids(" das", " Haus")
    assert verified.token_ids[verified.source_end :] == accepted


def test_tokens_that_the_gate_rejects_cost_no_requests():
    stream = Stream(border_margin=-8)
    assert stream.update("thehouse is", 2, stream.draft("das Haus", [0, 0])) == []
    assert len(stream.engine.calls) == 1


def test_nothing_is_anticipated_ahead():
    stream = Stream()
    stream.engine.drafts = [stream.draft("das Haus ist", [0, 0, 0])]
    stream.translator.draft_ahead(SourceView(make_words("thehouse is"), 2))
    drafts = stream.draft("was"), stream.draft("das Haus")
    # At the beginning of a talk, only the sentence itself can be continued.
    assert stream.update("thehouse is", 2, *drafts) == ["das", "Haus"]


def test_the_policy_asks_as_many_continuations_as_it_needs():
    counts = iter([3, 2, 0, 4])
    draft = Draft((1, 2, 3, 4), False, make_rows([[[1.0]] * 2] * 4))
    context = type("Context", (), {"anticipated": lambda self, tokens: islice(counts, 4)})()
    gate = AlignAtt(border_margin=0, anticipations=2)
    assert gate.decide(draft, 1, context).accepted == 2
    assert gate.decide(draft, 1, context).accepted == 0
    # The count of zero ended the second decision.
    assert list(counts) == [4]
    assert gate.alone().decide(draft, 1, context).accepted == 4


def test_either_rule_anticipates_what_the_gate_or_the_drafts_accept():
    draft = Draft((1, 2), False, make_rows([[[1.0]] * 2] * 2))
    context = DraftContext(earlier=((1, 2),), anticipated=lambda tokens: iter([1]))
    policy = AlignAttOrAgreement(drafts=2, anticipations=1)
    decision = policy.decide(draft, 1, context)
    assert (decision.accepted, decision.reason) == (1, "anticipation")
    assert policy.alone().anticipations == 0
