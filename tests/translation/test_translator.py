"""The life of an utterance: scenarios over drafts that are written by hand.

A line of a scenario is a call: the source, how many of its words are accessible (``end`` completes
the sentence), the drafts of the engine, and what is emitted. A draft is written with the source
word that each piece looks at most, behind the accepted pieces it has to continue (``das ^``);
``+`` glues a piece or an emitted unit to the one before, ``$`` ends a draft, ``()`` is an empty
one, ``;`` stands between two, and ``!`` is a failure. Emitted units may name the first and last
word they span.
"""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alignatt_agent.policy import AlignAtt, EmitAll, HoldN, LocalAgreement, WaitK
from alignatt_agent.translation.alignment import carry_over
from alignatt_agent.translation.translator import Translator
from alignatt_agent.types import Draft, EngineError, SourceView
from tests.fakes import scenarios
from tests.fakes.models import (
    READOUT,
    PieceTokenizer,
    Prompts,
    ScriptedEngine,
    make_rows,
    make_words,
)

POLICIES = {
    "gate": AlignAtt(border_margin=0, normalize="none", median_width=1),
    "emit_all": EmitAll(),
    "hold_1": HoldN(n=1),
    "hold_2": HoldN(n=2),
    "agree_2": LocalAgreement(drafts=2),
}


class Scenario(scenarios.Scenario):
    """A translator over the drafts that a scenario prepares."""

    def __init__(self, policy="gate", spaced=True, max_tokens=16, readout=READOUT):
        self.tokenizer, self.engine, self.spaced = PieceTokenizer(), ScriptedEngine([]), spaced
        self.translator = Translator(
            self.engine, Prompts(), self.tokenizer, readout, POLICIES[policy], spaced, max_tokens
        )

    def reset(self):
        self.translator.reset()

    def step(self, source, accessible, prepared, expected):
        asked, drafts = len(self.engine.calls), prepared.split(";") if prepared else []
        self.engine.drafts = [self.draft(source, text.split()) for text in drafts]
        if expected == "!":
            with pytest.raises(EngineError):
                self.emitted(source, accessible)
        else:
            emitted = self.emitted(source, accessible)
            glue = ("", "+")[self.spaced]
            shown = [unit[1:] if unit[0] == " " else glue + unit for unit in emitted.units]
            assert (spans(emitted) if "@" in expected else shown) == expected.split()
        assert not self.engine.drafts
        continued = [self.ids(text.rpartition("^")[0]) for text in drafts]
        prompts = [prompt for prompt, *_ in self.engine.calls[asked:]]
        assert [prompt.token_ids[prompt.source_end :] for prompt in prompts] == continued

    def emitted(self, source, accessible):
        words = make_words(source)
        if accessible == "end":
            return self.translator.complete(words)
        return self.translator.update(SourceView(words, int(accessible)))

    def draft(self, source, written):
        if written[-1] == "!":
            return EngineError("down")
        token_word = Prompts().build(source.split()).token_word
        drafted = written[written.index("^") + 1 :] if "^" in written else written
        pieces = [item.partition("@") for item in drafted if item not in ("$", "()")]
        peaks = [token_word.index(int(word)) for _, _, word in pieces if word]
        rows = None
        if peaks:
            rows = make_rows([[[float(s == p) for s in range(len(token_word))]] * 2 for p in peaks])
        return Draft(self.ids(" ".join(piece for piece, *_ in pieces)), "$" in written, rows)

    def ids(self, text):
        pieces = [f" {piece}" if self.spaced else piece for piece in text.split() if piece != "!"]
        return self.tokenizer.ids(*(piece.replace(" +", "") for piece in pieces))


def spans(emission):
    """Units with the numbers of the half-second words that they span."""
    assert not any(time.interpolated for time in emission.times)
    ends = [(round(t.start / 0.5), round((t.end - 0.4) / 0.5)) for t in emission.times]
    words = [str(first) if first == last else f"{first}-{last}" for first, last in ends]
    return [f"{unit.strip()}@{span}" for unit, span in zip(emission.units, words, strict=True)]


SCENARIOS = """
# only the accessible part is emitted, and the same source and frontier cost nothing
the house is | 2 | das@0 Haus@1 ist@2 -> das Haus
the house is | 2 | ->

# a moved frontier gates the same draft again, and nothing is taken back
the house is | 1 | das@0 Haus@1 ist@2 rot@2 -> das
the house is | 2 | -> Haus
the house is | 1 | ->
the house is | 3 | -> ist

# a changed source continues the accepted tokens
the house | 2 | das@0 Haus@1 ist@1 -> das Haus
the house was | 3 | das Haus ^ war@2 rot@2 -> war

# nothing accessible costs nothing
the house | 0 | ->
| 0 | ->

# the last word of an ended draft waits for its punctuation
the house | 2 | das@0 Haus@1 $ -> das
the house. | 2 | das ^ Haus@1 +.@1 $ -> Haus.

# the final pass is not gated, goes on to the end, and opens the next utterance (max_tokens: 2)
the house is red. | 1 | das@0 Haus@1 -> das
the house is red. | end | das ^ Haus ist; das Haus ist ^ ro; das Haus ist ro ^ +t +. $
    -> Haus ist rot.
it is | 1 | es@0 ist@1 -> es

# an empty draft ends the final pass
hm | end | () ->

# a prefix that reaches into the next sentence is split, and split again
I like it. You know the rest | 6 | Ich@0 mag@1 es@2 +.@2 Du@3 kennst@4 den@5
    -> Ich mag es. Du kennst
I like it. | end | Ich mag es +. ^ () $ ->
You know the rest | 4 | Du kennst ^ den@2 Rest@3 nicht@3 -> den Rest
You | end | Du ^ () $ ->

# one stray peak does not split
I like it. You know | 5 | Ich@0 mag@4 es@2 +.@2 Du@3 -> Ich mag es.
I like it. | end | Ich mag es +. ^ () $ ->

# tokens past the sentence that the final pass repeats are not emitted again
I saw it. You know | 5 | Ich@0 habe@1 es@2 gesehen@4 und@4 -> Ich habe es gesehen
I saw it. | end | Ich habe es ^ gesehen gestern +. $ -> gestern.
You know | 2 | du@0 ->

# a late full stop does not dangle behind the next sentence
I like it You know | 5 | Ich@0 mag@1 es@2 Du@3 kennst@4 -> Ich mag es Du
I like it. | end | Ich mag es ^ +. $ ->
You know | 2 | Du ^ weißt@1 ->

# Chinese closing marks stay with their sentence (spaced: false)
I do. You know | 4 | 我@0 做@1 。@2 你@2 知@3 -> 我 做 。 你 知
I do. | end | 我 做 。 ^ () $ ->

# revised words keep the alignment
a b c | 3 | A@0 B@1 C@2 D@2 -> A B C
uh a b. c d | 5 | A B C ^ D@4 E@4 -> D
uh a b. | end | A B ^ () $ ->

# a vanished utterance is not continued
thank you | 2 | danke@0 sehr@1 -> danke
| 0 | ->
we show | 2 | wir@0 zeigen@1 -> wir

# a reset forgets the utterance
a b | 2 | A@0 B@1 -> A
reset
a b | 2 | A@0 B@1 -> A

# without rows nothing is split (policy: emit_all, readout: null)
a b c | 1 | A B C -> A B
a | end | A B ^ () $ ->
b c | 1 | B C -> B

# the last units of a draft are held back (policy: hold_2, readout: null)
the house | 2 | das Ha +us ist rot -> das Haus
the house was | 3 | das Ha +us ^ ist alt und rot -> ist alt

# drafts of different sources of one utterance have to agree (policy: agree_2, readout: null)
the house | 1 | das Haus ist rot ->
the house | 2 | ->
the house was | 3 | das Haus war rot -> das Haus
the house was red and | 5 | das Haus ^ war rot und -> war rot
the house was red and old. | end | das Haus war rot ^ und alt. $ -> und alt.
a new | 2 | ein neues ->

# a draft that goes on inside an emitted word is appended to it (policy: emit_all)
the world is | 3 | die Welt ist -> die Welt
the world champion has | 4 | die Welt ^ +meisterin hat nun -> +meisterin hat

# in a number, too, and a mark (policy: emit_all)
it costs 3 and | 4 | es kostet 3 und -> es kostet 3
it costs 3.5 euros | 4 | es kostet 3 ^ +,5 Euro. Und -> +,5 Euro.
it costs 3.5 euros! | end | es kostet 3 +,5 Euro. ^ +” $ -> +”

# nothing completes a sentence behind words of the next one (policy: gate)
I like it very You | 5 | Ich@0 mag@1 es@2 Du@4 kennst@4 -> Ich mag es Du
I like it very. | end | Ich mag es ^ +sehr@3 +.@3 $ ->
You know | 2 | Du ^ +r@0 kennst@1 das@1 -> +r kennst

# units span the words that their tokens look at most, in the final pass too
a red house it is now | 6 | das@0 Ha@4 +us@2 ist@3 rot@1 und@5 -> das@0 Haus@2-4 ist@3 rot@1
a red house it is now. | end | das Ha +us ist rot ^ und@5 nun@4 +.@5 $ -> und@5 nun.@4-5

# a token that holds several characters times all of them (spaced: false)
we use models now | 4 | 我们@0 用@1 模型吗@2 好@3 -> 我@0 们@0 用@1 模@2 型@2 吗@2 好@3

# policies without a gate use rows where they are (policy: hold_1)
aaa bbb | 2 | A@1 B@0 C@0 -> A@1 B@0

# the rest of the last draft is expected in the next one (told: ['', ist, rot, alt, ''])
the house | 2 | das@0 Haus@1 ist@1 -> das Haus
the house was | 3 | das Haus ^ war@2 rot@2 -> war
the house was red | 4 | das Haus war ^ alt@3 ->
the house was red. | end | das Haus war ^ alt +. $ -> alt.
it is | 1 | es@0 ist@1 -> es

# marks alone are not translated
... | 1 | ->
... | end | ->
\u200b | end | ->
— ? | end | ->
we go. | end | wir gehen. $ -> wir gehen.

# marks that close before live words leave the translation of these words
... I like | 3 | ich@1 mag@2 es@2 -> ich mag
... | end | ->
I like it. | end | ich mag ^ es +. $ -> es.

# what went on into the next sentence is expected there (told: ['', Du kennst, kennst])
I like it. You know | 5 | Ich@0 mag@1 es@2 +.@2 Du@3 kennst@4 -> Ich mag es. Du
I like it. | end | Ich mag es +. ^ () $ ->
You know | 2 | Du ^ kennst@1 das@1 -> kennst
"""


@pytest.mark.parametrize(("script", "settings"), scenarios.read(SCENARIOS))
def test_scenario(script, settings):
    told = settings.pop("told", None)
    scenario = Scenario(**settings).play(script)
    readout = settings.get("readout", READOUT)  # in final passes too, for the times of units
    assert all(call[2] == readout for call in scenario.engine.calls)
    assert told is None or scenario.engine.expected == [scenario.ids(text) for text in told]


def test_decoding_grows_with_what_is_new(tokenizer):
    """It does not grow with the square of the sentence: 20,000 tokens for each token."""
    line = " Wir trainieren {} große Modelle; das ist „schwer“, weil 3,5 Sekunden vergehen."
    text = "".join(map(line.format, range(20)))
    ids, decoded = tuple(tokenizer.encode(text, add_special_tokens=False)[:400]), []

    def decode(tokens, **given):
        decoded.extend(tokens)
        return tokenizer.decode(tokens, **given)

    def draft(request):
        prompt = request.prompt
        begin = len(prompt.token_ids) - prompt.source_end
        return Draft(ids[begin : begin + 16], False)

    engine, read = SimpleNamespace(draft=draft), SimpleNamespace(decode=decode)
    translator = Translator(engine, Prompts(), read, None, WaitK(k=1), True, 16)
    for heard in range(1, 138):
        translator.update(SourceView(make_words("w " * heard), heard))
        assert len(decoded) < 200 + 30 * len(translator.accepted)
    assert len(translator.accepted) > 370


@pytest.mark.parametrize(("expansion", "bound"), [(1.0, 44), (4.5, 86)])
def test_a_model_that_never_ends_is_bounded(expansion, bound, monkeypatch, caplog):
    """Six source tokens for two words: 2 * 6 + 32 = 44 tokens, or what another script needs."""
    monkeypatch.setattr(Prompts, "expansion", expansion)
    s = Scenario(max_tokens=86)
    written = [f"x{n}" for n in range(bound)]
    s.play([f"ab cd | end | {' '.join(written)} -> {' '.join(written)}"])
    assert [max_tokens for _, max_tokens, _ in s.engine.calls] == [bound]
    assert "an endless translation of 2 source words was cut" in caplog.text


def test_a_loop_of_the_model_is_said_once(caplog):
    draft = "Sie@0 sollten@0 nur@0 auf@1 Deutsch@1 +:@1 " * 4
    s = Scenario(max_tokens=64).play([f"You only | end | {draft} -> Sie sollten nur auf Deutsch:"])
    assert len(s.engine.calls) == 1
    assert "an endless translation of 2 source words" in caplog.text


def test_a_loop_that_grows_draft_by_draft_stops():
    """Qwen2.5-Coder 1.5B wrote one clause of four tokens twenty times into a live sentence."""
    s, words = Scenario(), "A B C"
    emitted = []
    for _ in range(8):
        words += f" C{len(emitted)}"
        s.engine.drafts = [s.draft(words, ["so@0", "geht@1", "es@2", "so@0"])]
        emitted += s.emitted(words, 3).units
    assert len(emitted) == 15  # three words, four times more
    s.engine.drafts = [s.draft(words, ["weiter@3", "und@3"])]
    assert s.emitted(words + " D", 5).units == (" weiter",)


@pytest.mark.parametrize(
    ("word", "translation", "spaced"),
    [
        ("no", "na +h +i +n", True),
        ("terribly", "stra +š +n +ě +,", True),
        ("please", "s'il vous pla +ît", True),
        ("不是", "Nein +,", True),
        ("no", "な る ほ ど", False),
        ("never", "决 不 ，", False),
    ],
)
@pytest.mark.parametrize("copies", [5, 8, 15])
def test_the_repetitions_of_a_speaker_are_translated(word, translation, spaced, copies):
    """The rule counts words: a word of five tokens, said five times, is no loop."""
    source = " ".join([word] * copies)
    if not word.isascii():
        source = " ".join(source.replace(" ", ""))
    pieces = (f"{translation} " * copies).split()
    s = Scenario(spaced=spaced, max_tokens=100)
    shown = s.tokenizer.decode(s.ids(" ".join(pieces)))
    s.engine.drafts = [s.draft(source, [*pieces, "$"])]
    assert "".join(s.emitted(source, "end").units).strip() == shown.strip()
    live = Scenario(spaced=spaced, max_tokens=100)
    live.engine.drafts = [live.draft(source, [*(f"{piece}@0" for piece in pieces), "D@0", "$"])]
    emitted = "".join(live.emitted(source, len(source.split())).units)
    assert emitted.strip() == shown.strip()


@pytest.mark.parametrize("max_tokens", [16, 60])
def test_a_loop_is_cut_to_the_repetitions_of_the_speaker(max_tokens):
    """Drafts of 16 tokens end inside a word of three tokens."""
    source, pieces = "No, no, no, no, no.", "ne +ei +n " * 30
    s = Scenario(max_tokens=max_tokens)
    drafts = [pieces.split()[k : k + max_tokens] for k in range(0, 60, max_tokens)]
    s.engine.drafts = [s.draft(source, [*draft]) for draft in drafts]
    units = s.emitted(source, "end").units
    assert units == (" neein",) * 5


def test_policies_that_look_at_nothing_spread_units_over_the_speech():
    s = Scenario("emit_all", readout=None)
    s.engine.drafts = [s.draft("a b c d", ["A", "B", "C"]), s.draft("a", ["C", "$"])]
    emissions = s.emitted("a b c d", 4), s.emitted("a b c d e", "end")
    times = [time for emission in emissions for time in emission.times]
    assert [time.start for time in times] == pytest.approx([0.0, 0.95, 1.9])
    assert [time.end for time in times] == pytest.approx([0.95, 1.9, 2.4])
    assert all(time.interpolated for time in times)
    # A sentence closes before the live words that have times: times do not go back.
    s.engine.drafts = [s.draft("a", ["D", "E", "$"])]
    late = s.emitted("a b", "end").times
    assert [time.start for time in late] == pytest.approx([1.9 + 0.5 / 3, 1.9 + 1 / 3])
    assert [time.end for time in late] == pytest.approx([2.4, 2.4])


@pytest.mark.parametrize(
    ("old", "new", "places"),
    [
        ("a b c d", "a b", [0, 1, 2, 3]),
        ("A b, c", "a b c d", [0, 1, 2]),
        ("a b c", "a x b c", [0, 2, 3]),
        ("a x y c", "a z c", [0, 1, 1, 2]),
        ("a x c", "a c", [0, 1, 1]),
        ("a x y z", "a b", [0, 1, 2, 3]),
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
