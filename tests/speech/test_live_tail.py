"""The live tail: what is committed, accessible and trimmed, on one absolute time base.

A line of a scenario is a call: seconds of audio (``end`` finishes the stream), what is recognized
in the tail, and behind the arrow the closed sentences, the live words and checks of the tail. Words
are written with their times (``So.@0-0.5``; ``w0..2`` are three of 0.9 s, one a second). ``^``
stands behind the accessible ones and ``/`` between sentences. ``=`` is the hypothesis of the line
before, ``()`` an empty transcript, ``?`` one that cannot be believed, ``!`` a failure; without a
hypothesis no engine may be asked.
"""

import re
from dataclasses import dataclass, field

import pytest

from alignatt_agent.speech.live_tail import LiveTail
from alignatt_agent.types import SAMPLE_RATE, EngineError, Transcript, Word
from alignatt_agent.types.engines import AlignedItem
from tests.fakes import scenarios
from tests.fakes.speech import Settings, clock_audio, heard_span


@dataclass
class Said:
    """A recognizer and aligner that return prepared hypotheses in order."""

    hypotheses: list[str] = field(default_factory=list)
    spans: list[tuple[float, float]] = field(default_factory=list)
    languages: set[str] = field(default_factory=set)
    expected: list[str] = field(default_factory=list)

    def transcribe(self, audio, language, context="", expected=""):
        self.spans.append(heard_span(audio))
        self.languages.add(language)
        self.expected.append(expected)
        if self.hypotheses[0] in ("()", "?", "!"):
            kind = self.hypotheses.pop(0)
            if kind == "!":
                raise EngineError("the fake recognizer failed")
            return Transcript(None) if kind == "?" else Transcript("", steps=2)
        words = (written.split("@")[0] for written in split(self.hypotheses[0]))
        return Transcript(" ".join(words), steps=2)

    def align(self, audio, text, language):
        begin, _ = heard_span(audio)
        words = [timed(word) for word in split(self.hypotheses.pop(0))]
        if any(word.text == "FAIL" for word in words):
            raise EngineError("the fake aligner failed")
        return [AlignedItem(word.text, word.start - begin, word.end - begin) for word in words]


def split(text):
    """Split into written words; ``w0..2`` is short for ``w0@0-0.9 w1@1-1.9 w2@2-2.9``."""

    def spelled(found):
        name, first, last = found.groups()
        return " ".join(f"{name}{i}@{i}-{i}.9" for i in range(int(first), int(last) + 1))

    return re.sub(r"(\w)(\d)\.\.(\d)", spelled, text).split()


def timed(written):
    text, _, times = written.partition("@")
    return Word(text, *map(float, times.split("-")))


class Scenario(scenarios.Scenario):
    """A live tail that is fed seconds of clock audio; it commits by the paper's rule."""

    def __init__(self, verify=True, language="en", **settings):
        self.said, self.language = Said(), language
        self.config = Settings(**{"commit": "agreed", **settings})
        self.tail = LiveTail(self.said, self.said, language, self.config, verify=verify)
        self.samples, self.latest = 0, ""

    def hear(self, seconds, *hypotheses):
        self.said.hypotheses = list(hypotheses)
        if seconds == "end":
            return self.tail.finish()
        begin, self.samples = self.samples, self.samples + round(float(seconds) * SAMPLE_RATE)
        return self.tail.push(clock_audio(begin, self.samples))

    def step(self, seconds, hypothesis, expected):
        asked = len(self.said.spans)
        self.latest = heard = self.latest if hypothesis == "=" else hypothesis
        if expected == "!":
            with pytest.raises(EngineError):
                self.hear(seconds, heard)
        else:
            update = self.hear(seconds, *filter(None, [heard]))
            closed, live, checks = [*expected.split("|"), "", ""][:3]
            sentences = [split(text) for text in closed.split("/") if text.strip()]
            assert len(update.sentences) == len(sentences)
            for words, written in zip(update.sentences, sentences, strict=True):
                compare(words, written)
            compare(update.live.words, split(live.replace("^", "")))
            if "^" in live:
                assert update.live.accessible == len(split(live.split("^")[0]))
            self.check(checks.split())
            assert self.tail.tail_s <= self.config.max_tail_s
        assert len(self.said.spans) - asked == bool(heard)
        assert not self.said.hypotheses
        assert self.said.languages <= {self.language}
        assert self.tail.tail_s <= 2 * self.config.max_tail_s

    def check(self, checks):
        for kind, _, value in (check.partition("=") for check in checks):
            found = self.said.spans[-1] if kind == "heard" else (self.tail.tail_s,)
            assert found == pytest.approx(tuple(map(float, value.split("-"))))


def compare(words, written):
    assert [word.text for word in words] == [item.split("@")[0] for item in written]
    for word, item in zip(words, written, strict=True):
        if "@" in item:
            assert (word.start, word.end) == pytest.approx((timed(item).start, timed(item).end))


SCENARIOS = """
# nothing is transcribed before the minimum (min_start_s: 2.0)
1 | ->
0.9 | ->
0.1 | hi@0.5-0.8 -> | hi | heard=0-2

# a sentence is committed when two hypotheses agree, and cut half-way to the next word
1.5 | So.@0-0.5 It@0.8-1 is@1.1-1.4 -> | So. It is
1 | So.@0-0.56 It@0.8-1 was@1.1-1.4 good.@1.5-1.9 -> So. | It@0.8-1 was good.
1 | It@0.8-1 was@1.1-1.4 good.@1.5-1.84 Yes@2.2-2.6
    -> It was good.@1.5-1.84 | Yes | heard=0.68-3.5 tail=1.48

# two sentences at once, and no abbreviation
2 | Yes.@0-0.3 Dr.@0.4-0.5 No@0.5-0.7 came.@0.8-1 e.g.@1.2-1.4 at@1.4-1.6
    -> | Yes. Dr. No came. e.g. at
0.5 | = -> Yes. / Dr. No came. | e.g. at

# sentences end by the spoken language (language: de)
2 | Am@0-0.2 3.@0.3-0.5 Mai@0.6-0.8 kam@0.9-1.1 er.@1.2-1.5 Dann@1.6-1.9 -> | Am 3. Mai kam er. Dann
1 | = -> Am 3. Mai kam er. | Dann

# accessible words are as old as the hold-back (hold_back_ms: 250)
2 | a@0-0.5 b@0.6-1.2 c@1.3-1.75 d@1.8-2 -> | a b c ^ d

# a word younger by 1 ms is not accessible (hold_back_ms: 251)
2 | a@0-0.5 b@0.6-1.2 c@1.3-1.75 d@1.8-2 -> | a b ^ c d

# the hold-back still works after the first sentence (hold_back_ms: 250)
2 | So.@0-0.5 a@1-1.5 -> | So. a
0.5 | = -> So. | a ^
1 | a@1-1.5 b@1.6-3.4 -> | a ^ b

# a word that goes on past the audio is not accessible
2 | a@0-0.5 cut@1.6-2.08 -> | a ^ cut@1.6-2

# only what two hypotheses share is accessible (stable_only: true)
1 | a@0-0.3 b@0.4-0.6 -> | ^ a b
1 | a@0-0.3 x@0.4-0.6 c@0.7-0.9 -> | a ^ x c
1 | = -> | a x c ^

# audio of the last word is trimmed when nothing follows: it was over when first heard
1.5 | So.@0-0.5 -> | So.
1 | = -> So. | | tail=1.5

# a long tail commits its stable words into the open utterance, where they stay (max_tail_s: 6.0)
3 | w0..2 -> | w0..2
2 | w0..4 -> | w0..4
2 | w0..6 -> | w0..6 | tail=2.05
2 | w5..7 new.@8-8.8 -> | w0..7 new. ^ | heard=4.95-9

# a long pause closes an unfinished sentence (commit: ended)
1.5 | Um@0.2-0.5 we@0.6-1 -> | Um we
1.5 | = -> | Um we
1 | = -> Um we |
1.5 | went.@5-5.4 -> | went. | heard=2-5.5

# the paper's rule knows no pause
1.5 | Um@0.2-0.5 we@0.6-1 -> | Um we
1.5 | = -> | Um we
1 | = -> | Um we

# a sentence that is heard late does not reach over a long pause (commit: ended)
4 | () ->
3 | Um@0.2-0.5 We@5-5.2 went.@5.3-5.6 Then@6-6.2 we@6.3-6.5 -> | Um We went. Then we
0.5 | = -> Um / We went. | Then we

# a long pause closes the open utterance, its last words taken back (max_tail_s: 6.0, commit: ended)
3 | w0..2 -> | w0..2
2 | w0..4 -> | w0..4
2 | w0..6 -> | w0..6
1 | () -> | w0..6
0.5 | () -> w0..4 |

# of a long tail without stable words, what is older than half of it is settled (max_tail_s: 6.0)
2 | a0..1 -> | a0 a1
2 | b0..3 -> | b0..3
2 | c0..5 -> | c0..5
2 | d0..7 -> | d0..7

# sound without words is not transcribed again and again
9 x 1 | () ->
1 | () -> | | tail=5

# one empty transcript of audible audio takes nothing back, a second all that was heard only once
1 | a@0-0.5 -> | a
1 | () -> | a
1 | a@0-0.5 -> | a
1 | a@0-0.5 b@1-1.5 -> | a b
1 | () -> | a b
1 | () -> | a

# a recognizer that is never believed costs no memory (max_tail_s: 10.0)
60 x 1 | ? ->

# empty chunks cost nothing, and a last sample alone is not heard again
0 | ->
end | ->
1 | a@0.2-0.5 -> | a
0 | -> | a
0.0000625 | a@0.2-0.5 -> | a
end | -> a

# the end hears the rest and closes everything (min_start_s: 2.0)
1 | ->
end | It.@0-0.2 is@0.3-0.5 over@0.6-0.9 -> It. / is over | ^
end | ->

# useless times do not commit a word twice: half of the audio goes with one of two words
1 | So.@0-0 yes@0-0 -> | So. yes
1 | = -> So. | yes | tail=1

# failures keep audio and words, and do not let the tail grow for ever
1 | So.@0-0.5 yes@0.6-0.9 -> | So. yes
1 | ! -> !
1 | FAIL@0-1 -> !
1 | So.@0-0.5 yes@0.6-0.9 -> So. | yes | heard=0-4
80 x 1 | ! -> !
"""


@pytest.mark.parametrize(("script", "settings"), scenarios.read(SCENARIOS))
def test_scenario(script, settings):
    Scenario(**settings).play(script)


def test_the_recognizer_is_told_what_it_heard_last():
    so, both = "So.@0-0.4", "So.@0-0.4 went@0.6-0.9"
    heard = so, both, "我@0.6-0.9 们@1-1.4", "()", "()", "?", "went@0.6-0.9"
    s = Scenario()
    made = [(t.requests, t.steps) for h in heard for t in s.hear(1.0, h).transcripts]
    # A committed sentence is not transcribed again; after silence or doubt less is expected.
    assert s.said.expected == ["", "So.", "went", "我们", "我们", "", ""]
    assert made == [(1, 2)] * 5 + [(1, 0), (1, 2)]
    deaf = Scenario(verify=False)
    for hypothesis in (so, both):
        deaf.hear(1.0, hypothesis)
    assert deaf.said.expected == ["", ""]


def test_a_sound_on_which_the_recognizer_loops_costs_little(caplog):
    """The first transcript that does not end changes nothing, the second one cuts the tail after
    its words.
    """
    script = """
        1 | So.@0-0.5 yes@0.6-0.9 -> | So. yes ^
        1 | ? -> | So. yes ^
        1 | So.@0-0.5 yes@0.6-0.9 -> So. | yes | heard=0-3
        1 | ? -> | yes
        1 | ? -> | yes | tail=4.05
        1 | ? -> | yes
        1 | ? -> | yes | tail=4.5375625
        1 | we@4-4.3 go@4.5-4.9 -> | yes we go | heard=2.4624375-8
        1 | ? -> | yes we go
        end | ? -> yes we go"""
    Scenario().play(script.strip().splitlines())
    assert [record.message.partition(" s of")[0] for record in caplog.records] == ["1.5", "1.0"]


def test_a_long_noise_does_not_fill_the_log(caplog):
    script = [f"1 | a{n}@0-{n + 5.9} -> | a{n}" for n in range(12)]  # a word that never ends
    assert Scenario(max_tail_s=6.0).play(script).tail.tail_s == 6.0
    (warning,) = [record.message for record in caplog.records if "is dropped" in record.message]
    assert warning == "audio without stable words is dropped; 6 s are kept"


def test_a_failure_of_the_aligner_keeps_the_audio_and_the_costs_of_the_transcript():
    scenario = Scenario()
    scenario.hear(1.0, "a@0-0.9")
    before = scenario.tail._state
    with pytest.raises(EngineError, match="aligner failed"):
        scenario.hear(1.0, "a@0-0.9 FAIL@1-1.9")
    failed = scenario.tail._state
    assert before.tail_s == 1.0
    assert failed.tail_s == 2.0
    assert failed.hypothesis == before.hypothesis
    assert failed.transcripts == (Transcript("a FAIL", steps=2),)
    update = scenario.hear(1.0, "a@0-0.9 b@1-1.9 c@2-2.9")
    assert update.transcripts == (
        Transcript("a FAIL", steps=2),
        Transcript("a b c", steps=2),
    )
    assert [word.text for word in update.live.words] == ["a", "b", "c"]
