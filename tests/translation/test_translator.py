"""The life of an utterance over engines that can be computed by hand, and over random ones."""

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignatt_agent.policy import AlignAtt, EmitAll, HoldN, LocalAgreement
from alignatt_agent.stopwatch import Stopwatch
from alignatt_agent.translation.drafter import Drafter
from alignatt_agent.translation.revision import carry_over
from alignatt_agent.translation.translator import Translator
from alignatt_agent.types import (
    Decision,
    Draft,
    EngineError,
    SourceView,
    StopReason,
)
from tests.fakes.models import (
    READOUT,
    MonotoneEngine,
    PieceTokenizer,
    Prompts,
    RandomEngine,
    ScriptedEngine,
    StoppingEngine,
    make_rows,
    make_words,
)


@dataclass
class Scripted:
    """A translator over prepared drafts; pieces peak at the source words that are named."""

    tokenizer: PieceTokenizer = field(default_factory=PieceTokenizer)
    engine: ScriptedEngine = field(default_factory=lambda: ScriptedEngine([]))
    max_tokens: int = 16
    spaced: bool = True
    margin: int = 0

    def __post_init__(self):
        policy = AlignAtt(border_margin=self.margin, normalize="none", median_width=1)
        self.translator = Translator(
            self.engine, Prompts(), self.tokenizer, READOUT, policy, self.spaced, self.max_tokens
        )

    def will_draft(self, source, pieces, words=None, ended=False):
        token_word = Prompts().build(source.split()).token_word
        rows = None
        if words is not None:
            peaks = [token_word.index(word) for word in words]
            rows = make_rows([[[float(s == p) for s in range(len(token_word))]] * 2 for p in peaks])
        self.engine.drafts.append(Draft(self.tokenizer.ids(*pieces), ended, rows))

    def update(self, source, accessible):
        return list(self.translator.update(SourceView(make_words(source), accessible)).units)

    def complete(self, source):
        return list(self.translator.complete(make_words(source)).units)

    def prefix(self, call=-1):
        """Accepted pieces that a call continued."""
        prompt = self.engine.calls[call][0]
        return [self.tokenizer.pieces[i] for i in prompt.token_ids[prompt.source_end :]]


def test_only_the_accessible_part_is_emitted():
    t = Scripted()
    t.will_draft("the house is", [" das", " Haus", " ist", " rot"], [0, 1, 2, 2])
    assert t.update("the house is", 2) == ["das", "Haus"]
    assert t.translator.gated.decision.reason is StopReason.SOURCE_FRONTIER
    prompt, max_tokens, readout = t.engine.calls[0]
    assert (max_tokens, readout) == (16, READOUT)
    assert prompt.token_ids[prompt.source_end :] == ()


def test_same_source_and_frontier_is_free():
    t = Scripted()
    t.will_draft("the house is", [" das", " Haus", " ist"], [0, 1, 2])
    t.update("the house is", 2)
    assert t.update("the house is", 2) == []
    assert len(t.engine.calls) == 1


def test_a_moved_frontier_gates_the_same_draft_again():
    t = Scripted()
    t.will_draft("the house is", [" das", " Haus", " ist", " rot"], [0, 1, 2, 2])
    assert t.update("the house is", 1) == ["das"]
    assert t.update("the house is", 2) == ["Haus"]
    assert t.update("the house is", 1) == []  # nothing is taken back
    assert t.update("the house is", 3) == ["ist"]  # "rot" may go on
    assert len(t.engine.calls) == 1


def test_a_changed_source_continues_the_accepted_ids():
    t = Scripted()
    t.will_draft("the house", [" das", " Haus", " ist"], [0, 1, 1])
    t.will_draft("the house was", [" war", " rot"], [2, 2])
    assert t.update("the house", 2) == ["das", "Haus"]
    assert t.update("the house was", 3) == ["war"]
    assert t.prefix() == [" das", " Haus"]


def test_nothing_accessible_costs_nothing():
    t = Scripted()
    assert t.update("the house", 0) == []
    assert t.update("", 0) == []
    assert t.engine.calls == []


def test_the_last_word_of_an_ended_draft_waits_for_its_punctuation():
    t = Scripted()
    t.will_draft("the house", [" das", " Haus"], [0, 1], ended=True)
    t.will_draft("the house.", [" Haus", "."], [1, 1], ended=True)
    assert t.update("the house", 2) == ["das"]
    assert t.update("the house.", 2) == ["Haus."]


def test_the_final_pass_is_not_gated_and_goes_on_to_the_end():
    t = Scripted(max_tokens=2)
    t.will_draft("the house is red.", [" das", " Haus"], [0, 1])
    assert t.update("the house is red.", 1) == ["das"]
    t.will_draft("the house is red.", [" Haus", " ist"])
    t.will_draft("the house is red.", [" ro"])
    t.will_draft("the house is red.", ["t", "."], ended=True)
    assert t.complete("the house is red.") == ["Haus", "ist", "rot."]
    assert t.prefix(1) == [" das"]
    assert t.prefix(3) == [" das", " Haus", " ist", " ro"]
    assert all(readout == READOUT for _, _, readout in t.engine.calls)  # for the times of units
    # The next utterance starts from nothing.
    t.will_draft("it is", [" es", " ist"], [0, 1])
    assert t.update("it is", 1) == ["es"]
    assert t.prefix() == []


def test_the_engine_is_told_what_the_last_draft_said():
    t = Scripted()
    ids = t.tokenizer.ids
    t.will_draft("the house", [" das", " Haus", " ist"], [0, 1, 1])
    t.will_draft("the house was", [" war", " rot"], [2, 2])
    assert t.update("the house", 2) == ["das", "Haus"]
    assert t.update("the house was", 3) == ["war"]
    t.will_draft("the house was red", [" alt"], [3])
    t.update("the house was red", 4)
    t.will_draft("the house was red.", [" alt", "."], ended=True)
    t.complete("the house was red.")
    t.will_draft("it is", [" es", " ist"], [0, 1])
    t.update("it is", 1)  # another utterance
    assert t.engine.expected == [(), ids(" ist"), ids(" rot"), ids(" alt"), ()]


def test_where_a_draft_was_cut_the_one_before_goes_on():
    tokenizer = PieceTokenizer()
    ids = tokenizer.ids
    drafts = [
        Draft(ids(" a", " b", " c"), True),
        Draft(ids(" a", " b"), False, cut=True),
        Draft(ids(" a", " x"), False, cut=True),
        EngineError("it failed"),
        Draft(ids(" a"), True),
    ]
    drafter = Drafter(engine := ScriptedEngine(drafts), Stopwatch(), verify=True)
    prompt = Prompts().build(["a"])
    drafter.draft(prompt, (), 8)
    begun = drafter.draft(prompt, (), 8)
    drafter.draft(prompt, (), 8, begun=begun)
    with pytest.raises(EngineError):
        drafter.draft(prompt, (), 8)
    drafter.draft(prompt, ids(" b"), 8)
    whole = ids(" a", " b", " c")
    assert engine.expected == [(), whole, whole[2:], ids(" a", " x"), ()]

    silent = Drafter(engine := ScriptedEngine([Draft(whole, True)] * 2), Stopwatch(), verify=False)
    for _ in range(2):
        silent.draft(prompt, (), 8)
    assert engine.expected == [(), ()]


def test_a_model_that_never_ends_is_bounded():
    t = Scripted(max_tokens=16)
    source = "ab cd"  # three source tokens each: 2 * 6 + 32 = 44 tokens
    for _ in range(3):
        t.will_draft(source, [" x"] * 16)
    t.engine.drafts[2] = Draft(t.tokenizer.ids(*[" x"] * 12), False)
    assert t.complete(source) == ["x"] * 44
    assert [max_tokens for _, max_tokens, _ in t.engine.calls] == [16, 16, 12]


def test_an_empty_draft_ends_the_final_pass():
    t = Scripted()
    t.will_draft("hm", [])
    assert t.complete("hm") == []
    assert len(t.engine.calls) == 1


def test_a_prefix_that_reaches_into_the_next_sentence_is_split():
    t = Scripted()
    source = "I like it. You know the rest"
    pieces = [" Ich", " mag", " es", ".", " Du", " kennst", " den"]
    t.will_draft(source, pieces, [0, 1, 2, 2, 3, 4, 5])
    assert t.update(source, 6) == ["Ich", "mag", "es.", "Du", "kennst"]
    t.will_draft("I like it.", [], ended=True)
    assert t.complete("I like it.") == []
    assert t.prefix() == [" Ich", " mag", " es", "."]
    t.will_draft("You know the rest", [" den", " Rest", " nicht"], [2, 3, 3])
    assert t.update("You know the rest", 4) == ["den", "Rest"]
    assert t.prefix() == [" Du", " kennst"]
    # The carried tokens keep their words: a sentence that ends behind "You" is split again.
    t.will_draft("You", [], ended=True)
    assert t.complete("You") == []
    assert t.prefix() == [" Du"]


def test_one_stray_peak_does_not_split():
    t = Scripted()
    source = "I like it. You know"
    t.will_draft(source, [" Ich", " mag", " es", ".", " Du"], [0, 4, 2, 2, 3])
    assert t.update(source, 5) == ["Ich", "mag", "es."]
    t.will_draft("I like it.", [], ended=True)
    assert t.complete("I like it.") == []
    assert t.prefix() == [" Ich", " mag", " es", "."]


def test_tokens_that_the_final_pass_repeats_are_not_emitted_again():
    # "gesehen" peaks past the sentence, but the model says that it belongs to it.
    t = Scripted()
    source = "I saw it. You know"
    t.will_draft(source, [" Ich", " habe", " es", " gesehen", " und"], [0, 1, 2, 4, 4])
    assert t.update(source, 5) == ["Ich", "habe", "es", "gesehen"]
    t.will_draft("I saw it.", [" gesehen", " gestern", "."], ended=True)
    assert t.complete("I saw it.") == ["gestern."]
    assert t.prefix() == [" Ich", " habe", " es"]
    t.will_draft("You know", [" du"], [0])
    t.update("You know", 2)
    assert t.prefix() == []


def test_a_late_full_stop_does_not_dangle_behind_the_next_sentence():
    t = Scripted()
    source = "I like it You know"
    t.will_draft(source, [" Ich", " mag", " es", " Du", " kennst"], [0, 1, 2, 3, 4])
    assert t.update(source, 5) == ["Ich", "mag", "es", "Du"]
    t.will_draft("I like it.", ["."], ended=True)
    assert t.complete("I like it.") == []
    t.will_draft("You know", [" weißt"], [1])
    t.update("You know", 2)
    assert t.prefix() == [" Du"]


def test_chinese_closing_marks_stay_with_their_sentence():
    t = Scripted(spaced=False)
    t.will_draft("I do. You know", ["我", "做", "。", "你", "知"], [0, 1, 2, 2, 3])
    assert t.update("I do. You know", 4) == list("我做。你知")
    t.will_draft("I do.", [], ended=True)
    assert t.complete("I do.") == []
    assert t.prefix() == ["我", "做", "。"]


def test_revised_words_keep_the_alignment():
    t = Scripted()
    t.will_draft("a b c", [" A", " B", " C", " D"], [0, 1, 2, 2])
    assert t.update("a b c", 3) == ["A", "B", "C"]
    t.will_draft("uh a b. c d", [" D", " E"], [4, 4])
    assert t.update("uh a b. c d", 5) == ["D"]
    t.will_draft("uh a b.", [], ended=True)
    assert t.complete("uh a b.") == []
    assert t.prefix() == [" A", " B"]


def test_a_vanished_utterance_is_not_continued():
    t = Scripted()
    t.will_draft("thank you", [" danke", " sehr"], [0, 1])
    assert t.update("thank you", 2) == ["danke"]
    assert t.update("", 0) == []
    t.will_draft("we show", [" wir", " zeigen"], [0, 1])
    assert t.update("we show", 2) == ["wir"]
    assert t.prefix() == []


def test_reset_forgets_the_utterance():
    t = Scripted()
    t.will_draft("a b", [" A", " B"], [0, 1])
    t.update("a b", 2)
    t.translator.reset()
    assert t.translator.accepted == ()
    t.will_draft("a b", [" A", " B"], [0, 1])
    assert t.update("a b", 2) == ["A"]


def test_an_engine_failure_changes_nothing():
    t = Scripted(max_tokens=2)
    t.will_draft("a b", [" A", " B"], [0, 1])
    assert t.update("a b", 2) == ["A"]
    t.engine.drafts.append(EngineError("down"))
    with pytest.raises(EngineError):
        t.update("a b c", 3)
    t.will_draft("a b c", [" B", " C"], [1, 2])
    assert t.update("a b c", 3) == ["B"]
    assert t.prefix() == [" A"]
    # In the middle of the final pass.
    t.will_draft("a b c", [" C", " D"])
    t.engine.drafts.append(EngineError("down"))
    with pytest.raises(EngineError):
        t.complete("a b c")
    t.will_draft("a b c", [" C", " D"])
    t.will_draft("a b c", [" E"], ended=True)
    assert t.complete("a b c") == ["C", "D", "E"]


def test_without_rows_nothing_is_split():
    tokenizer = PieceTokenizer()
    engine = ScriptedEngine([Draft(tokenizer.ids(" A", " B", " C"), False), Draft((), True)])
    translator = Translator(engine, Prompts(), tokenizer, None, EmitAll(), True, 16)
    assert translator.update(SourceView(make_words("a b c"), 1)).units == ("A", "B")
    assert translator.complete(make_words("a")).units == ()
    assert translator.accepted == ()


def spans(emission):
    """Units with the numbers of the half-second words that they span."""
    words = [(round(t.start / 0.5), round((t.end - 0.4) / 0.5)) for t in emission.times]
    return list(zip(emission.units, words, strict=True))


def test_units_span_the_words_that_their_tokens_look_at_most():
    t = Scripted()
    pieces = [" das", " Ha", "us", " ist", " rot", " und"]
    t.will_draft("a red house it is now", pieces, [0, 4, 2, 3, 1, 5])
    emission = t.translator.update(SourceView(make_words("a red house it is now"), 6))
    assert spans(emission) == [("das", (0, 0)), ("Haus", (2, 4)), ("ist", (3, 3)), ("rot", (1, 1))]
    assert not any(time.interpolated for time in emission.times)
    # The closing pass reads rows, too; what it repeats was told before.
    t.will_draft("a red house it is now.", [" und", " nun", "."], [5, 4, 5], ended=True)
    emission = t.translator.complete(make_words("a red house it is now."))
    assert spans(emission) == [("und", (5, 5)), ("nun.", (4, 5))]


def test_a_token_that_holds_several_characters_times_all_of_them():
    t = Scripted(spaced=False)
    t.will_draft("we use models now", ["我们", "用", "模型吗", "好"], [0, 1, 2, 3])
    emission = t.translator.update(SourceView(make_words("we use models now"), 4))
    assert spans(emission) == [
        *(("我", (0, 0)), ("们", (0, 0)), ("用", (1, 1))),
        *(("模", (2, 2)), ("型", (2, 2)), ("吗", (2, 2)), ("好", (3, 3))),
    ]


def test_policies_that_look_at_nothing_spread_units_over_the_speech():
    tokenizer = PieceTokenizer()
    drafts = [Draft(tokenizer.ids(" A", " B", " C"), False), Draft(tokenizer.ids(" C"), True)]
    translator = Translator(ScriptedEngine(drafts), Prompts(), tokenizer, None, EmitAll(), True, 16)
    first = translator.update(SourceView(make_words("a b c d"), 4))
    last = translator.complete(make_words("a b c d e"))
    times = [*first.times, *last.times]
    assert [time.start for time in times] == pytest.approx([0.0, 0.95, 1.9])
    assert [time.end for time in times] == pytest.approx([0.95, 1.9, 2.4])
    assert all(time.interpolated for time in times)


def test_policies_without_a_gate_use_rows_where_they_are():
    tokenizer = PieceTokenizer()
    rows = make_rows([[[float(s == p) for s in range(2)]] * 2 for p in (1, 0, 0)])
    draft = Draft(tokenizer.ids(" A", " B", " C"), False, rows)
    translator = Translator(
        ScriptedEngine([draft]), Prompts(), tokenizer, READOUT, HoldN(n=1), True, 16
    )
    emission = translator.update(SourceView(make_words("aaa bbb"), 2))
    assert spans(emission) == [("A", (1, 1)), ("B", (0, 0))]
    assert not any(time.interpolated for time in emission.times)


@pytest.mark.parametrize(
    ("old", "new", "places"),
    [
        ("a b c", "a b c", [0, 1, 2]),
        ("a b c d", "a b", [0, 1, 2, 3]),
        ("A b, c", "a b c d", [0, 1, 2]),
        ("a b c", "a x b c", [0, 2, 3]),
        ("a x y c", "a z c", [0, 1, 1, 2]),
        ("a x c", "a c", [0, 1, 1]),
        ("a x y z", "a b", [0, 1, 2, 3]),
        ("", "a", []),
        ("a b", "", [0, 1]),
    ],
)
def test_carry_over(old, new, places):
    assert carry_over(old.split(), new.split()) == places


@given(st.lists(st.sampled_from("ab,c"), max_size=8), st.lists(st.sampled_from("abc"), max_size=8))
def test_carry_over_keeps_the_order(old, new):
    places = carry_over(old, new)
    assert len(places) == len(old)
    assert places == sorted(places)
    beyond = [place for place in places if place >= len(new)]
    assert beyond == list(range(len(new), len(new) + len(beyond)))


@dataclass
class Watched:
    """A policy that checks its own promise against the frontier of every request."""

    margin: int = 1
    n: int = 1
    decisions: list[tuple[Draft, int, Decision]] = field(default_factory=list)

    def decide(self, draft, frontier, context):
        decision = AlignAtt(border_margin=self.margin, drafts=self.n).decide(
            draft, frontier, context
        )
        self.decisions.append((draft, frontier, decision))
        return decision

    def gate(self, frontier):
        return AlignAtt(border_margin=self.margin).gate(frontier)


VOCABULARY = [" a", " b.", "c", ".", " ", "，", "你", "好", "3", "\n", " “d", "”", "\ufffd", "  e"]


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    spaced=st.booleans(),
    failure_rate=st.sampled_from([0.0, 0.3]),
    steps=st.integers(1, 12),
)
def test_random_engines(seed, spaced, failure_rate, steps):
    """Append-only, whole units, no token past the frontier, whatever is drafted and revised."""
    rng = random.Random(seed)
    tokenizer = PieceTokenizer(list(VOCABULARY))
    engine = RandomEngine(len(VOCABULARY), seed, failure_rate)
    policy = Watched(rng.randrange(3), rng.choice([1, 1, 2]))
    translator = Translator(engine, Prompts(), tokenizer, READOUT, policy, spaced, 6)
    texts = []
    spelled = ""
    for _ in range(steps):
        before = translator.accepted
        texts = texts[: rng.randint(0, len(texts))] + rng.choices(
            ["the", "cat.", "sat", "I"], k=rng.randint(0, 3)
        )
        words = make_words(" ".join(texts))
        closes = bool(words) and rng.random() < 0.25
        count = rng.randint(1, len(words)) if closes else len(words)
        try:
            if closes:
                emission = translator.complete(words[:count])
            else:
                emission = translator.update(SourceView(words, rng.randint(0, count)))
        except EngineError:
            assert translator.accepted == before
            continue
        units = emission.units
        assert len(emission.times) == len(units)
        for time in emission.times:
            assert not time.interpolated
            assert words[0].start <= time.start < time.end <= words[count - 1].end
        for unit in units:
            assert unit == "".join(unit.split()).replace("\ufffd", "") != ""
            assert spaced or len(unit) == 1
        if closes:
            texts = texts[count:]
            # What moves on to the next utterance was already emitted before.
            assert before[len(before) - len(translator.accepted) :] == translator.accepted
            spelled = clean(tokenizer.decode(list(translator.accepted)))
        elif not words:
            spelled = ""
        else:
            assert translator.accepted[: len(before)] == before
            spelled += "".join(units)
        assert clean(tokenizer.decode(list(translator.accepted))) == spelled
    for draft, frontier, decision in policy.decisions:
        assert all(p < frontier + policy.margin for p in decision.peaks[: decision.accepted])
        assert decision.accepted <= len(draft.token_ids)


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    spaced=st.booleans(),
    normalize=st.sampled_from(["zscore", "none"]),
    median_width=st.sampled_from([1, 3]),
    margin=st.integers(-2, 2),
    taus=st.sampled_from([{}, {"tau_argmax": 0.05, "tau_src": 0.2}]),
    agreement=st.integers(1, 3),
    steps=st.integers(1, 16),
)
def test_an_engine_that_stops_early_changes_nothing(
    seed, spaced, normalize, median_width, margin, taus, agreement, steps
):
    """Same emissions, decisions and state as drafting whole and scanning, source by source."""
    pieces = [piece for piece in VOCABULARY if piece != "\ufffd"]
    tokenizer = PieceTokenizer(pieces if agreement == 1 else pieces[:2])  # so that drafts agree
    filters = {"normalize": normalize, "median_width": median_width}
    policy = AlignAtt(border_margin=margin, drafts=agreement, **filters, **taus)
    whole, early = (
        Translator(engine, Prompts(), tokenizer, READOUT, policy, spaced, 6, early_stop=stops)
        for engine, stops in (
            (RandomEngine(len(tokenizer.pieces), seed), False),
            (StoppingEngine(RandomEngine(len(tokenizer.pieces), seed)), True),
        )
    )
    rng = random.Random(seed)
    texts = ["the"]
    for _ in range(steps):
        if rng.random() < 0.5:
            texts = texts[: rng.randint(1, len(texts))] + rng.choices(["cat.", "sat"], k=2)
        words = make_words(" ".join(texts))
        view = SourceView(words, rng.randint(0, len(words)))
        assert early.update(view) == whole.update(view)
        assert early.accepted == whole.accepted
        gated = [item.gated and item.gated.decision for item in (early, whole)]
        assert gated[0] == gated[1]
        if rng.random() < 0.15:
            assert early.complete(words) == whole.complete(words)


def test_a_stopped_draft_goes_on_where_the_gate_opens():
    tokenizer = PieceTokenizer([" a", " b"])
    engine = StoppingEngine(RandomEngine(2, 3))
    policy = AlignAtt(border_margin=0, normalize="none", median_width=1)
    translator = Translator(engine, Prompts(), tokenizer, READOUT, policy, True, 16)
    words = make_words("I saw the old house there")
    for accessible in range(1, len(words) + 1):
        translator.update(SourceView(words, accessible))
    assert engine.stopped > 1
    assert engine.resumed > 0
    assert engine.inner.calls <= 1 + engine.resumed  # never begun anew


def test_the_last_units_of_a_draft_are_held_back():
    t = Scripted()
    t.translator = Translator(t.engine, Prompts(), t.tokenizer, None, HoldN(n=2), True, 16)
    t.will_draft("the house", [" das", " Ha", "us", " ist", " rot"])
    t.will_draft("the house was", [" ist", " alt", " und", " rot"])
    assert t.update("the house", 2) == ["das", "Haus"]
    assert t.update("the house was", 3) == ["ist", "alt"]


def test_drafts_of_different_sources_have_to_agree():
    t = Scripted()
    t.translator = Translator(
        t.engine, Prompts(), t.tokenizer, None, LocalAgreement(drafts=2), True, 16
    )
    t.will_draft("the house", [" das", " Haus", " ist", " rot"])
    t.will_draft("the house was", [" das", " Haus", " war", " rot"])
    t.will_draft("the house was red and", [" war", " rot", " und"])
    t.will_draft("a new", [" ein", " neues"])
    assert t.update("the house", 1) == []
    assert t.update("the house", 2) == []  # the same draft again shows nothing
    assert t.update("the house was", 3) == ["das", "Haus"]
    assert t.prefix() == []
    assert t.update("the house was red and", 5) == ["war", "rot"]
    assert t.prefix() == [" das", " Haus"]
    t.engine.drafts.insert(0, Draft(t.tokenizer.ids(" und", " alt."), True))
    assert t.complete("the house was red and old.") == ["und", "alt."]
    assert t.update("a new", 2) == []  # what was drafted for another utterance does not count


def clean(text):
    return "".join(text.replace("\ufffd", "").split())


@settings(max_examples=200, deadline=None)
@given(
    sentences=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    seed=st.integers(0, 2**32 - 1),
    margin=st.integers(0, 4),
    max_tokens=st.integers(2, 16),
    fail=st.booleans(),
)
def test_nothing_is_lost_or_translated_twice(sentences, seed, margin, max_tokens, fail):
    """A word-by-word model over live views that run ahead of the closed sentences."""
    rng = random.Random(seed)
    lengths = [f"{chr(97 + i % 26)}{'xyz'[: rng.randrange(4)]}q" for i in range(sum(sentences))]
    ends, total = [], 0
    for size in sentences:
        total += size
        ends.append(total)
    script = [word + "." * (i + 1 in ends) for i, word in enumerate(lengths)]
    tokenizer = PieceTokenizer()
    engine = MonotoneEngine(tokenizer)
    if fail:
        engine.failing = {rng.randint(1, 12), rng.randint(1, 12)}
    translator = Translator(
        engine,
        engine,
        tokenizer,
        READOUT,
        AlignAtt(border_margin=margin, normalize="none", median_width=1),
        True,
        max_tokens,
    )
    emitted, begin, heard = [], 0, 0
    while begin < len(script):
        heard = min(len(script), max(heard, begin) + rng.randrange(4))
        done = [end for end in ends if begin < end <= heard]
        try:
            if done and (rng.random() < 0.4 or heard == len(script)):
                emitted += translator.complete(make_words(" ".join(script[begin : done[0]]))).units
                begin = done[0]
            elif heard > begin:
                view = make_words(" ".join(script[begin:heard]))
                emitted += translator.update(SourceView(view, rng.randint(0, len(view)))).units
        except EngineError:
            pass
        assert emitted == [word.upper() for word in script[: len(emitted)]]
    assert emitted == [word.upper() for word in script]
