"""The live tail: what is committed, accessible and trimmed, on one absolute time base.

A line of a scenario is a call: seconds of audio (``end`` finishes the stream), what is recognized
in the tail, and behind the arrow the closed sentences, the live words and checks of the tail. Words
are written with their times (``So.@0-0.5``; ``w0..2`` are three of 0.9 s, one a second). ``^``
stands behind the accessible ones and ``/`` between sentences. ``=`` is the hypothesis of the line
before, ``()`` an empty transcript, ``?`` one that cannot be believed, ``!`` a failure; without a
hypothesis no engine may be asked.
"""

import math
import random
import re
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignatt_agent.speech.commits import SAME_S, STANDS_S
from alignatt_agent.speech.live_tail import SILENCE_KEPT_S, LiveTail
from alignatt_agent.types import SAMPLE_RATE, EngineError, Transcript, Transcripts, Word
from alignatt_agent.types.engines import AlignedItem
from tests.fakes.models import ScriptAligner, ScriptRecognizer, Settings, clock_audio, heard_span
from tests.fakes.scenarios import read


@dataclass
class Said:
    """A recognizer and aligner of one prepared hypothesis after the other."""

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


class Scenario:
    """A live tail that is fed seconds of clock audio; it commits by the paper's rule."""

    def __init__(self, verify=True, **settings):
        self.said = Said()
        self.config = Settings(**{"commit": "agreed", **settings})
        self.tail = LiveTail(self.said, self.said, "en", self.config, verify=verify)
        self.samples = 0

    def hear(self, seconds, *hypotheses):
        self.said.hypotheses = list(hypotheses)
        if seconds == "end":
            return self.tail.finish()
        begin, self.samples = self.samples, self.samples + round(float(seconds) * SAMPLE_RATE)
        return self.tail.push(clock_audio(begin, self.samples))

    def play(self, script):
        heard = ""
        for line in script:
            if line == "reset":
                self.tail.reset()
                self.samples = 0
                assert self.tail.now == 0
                continue
            call, _, expected = line.partition("->")
            seconds, hypothesis = (part.strip() for part in call.split("|"))
            heard = heard if hypothesis == "=" else hypothesis
            self.step(seconds, heard, [part.strip() for part in expected.split("|")])
        return self

    def step(self, seconds, heard, expected):
        asked = len(self.said.spans)
        if expected == ["!"]:
            with pytest.raises(EngineError):
                self.hear(seconds, heard)
        else:
            update = self.hear(seconds, *filter(None, [heard]))
            closed, live, checks = [*expected, "", ""][:3]
            sentences = [split(text) for text in closed.split("/") if text]
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
        assert self.said.languages <= {"en"}
        assert self.tail.tail_s <= 2 * self.config.max_tail_s

    def check(self, checks):
        for kind, _, value in (check.partition("=") for check in checks):
            found = self.said.spans[-1] if kind == "heard" else (self.tail.tail_s,)
            assert found == pytest.approx(tuple(map(float, value.split("-"))))


def compare(words, written):
    assert texts(words) == " ".join(item.split("@")[0] for item in written)
    for word, item in zip(words, written, strict=True):
        if "@" in item:
            assert (word.start, word.end) == pytest.approx((timed(item).start, timed(item).end))


def texts(words):
    return " ".join(word.text for word in words)


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

# accessible words without a hold-back
2 | a@0-0.5 b@0.6-1.2 c@1.3-1.75 d@1.8-2 -> | a b c d ^

# accessible words are as old as the hold-back (hold_back_ms: 250)
2 | a@0-0.5 b@0.6-1.2 c@1.3-1.75 d@1.8-2 -> | a b c ^ d

# a word younger by 1 ms is not accessible (hold_back_ms: 251)
2 | a@0-0.5 b@0.6-1.2 c@1.3-1.75 d@1.8-2 -> | a b ^ c d

# a hold-back of all that was heard (hold_back_ms: 2000)
2 | a@0-0.5 b@0.6-1.2 c@1.3-1.75 d@1.8-2 -> | ^ a b c d

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

# by the paper's rule it does
4 | () ->
3 | Um@0.2-0.5 We@5-5.2 went.@5.3-5.6 Then@6-6.2 we@6.3-6.5 -> | Um We went. Then we
0.5 | = -> Um We went. | Then we

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

# a long noise is dropped (max_tail_s: 6.0)
4 x 2 | () ->

# one empty transcript of audible audio takes nothing back, a second does
1 | a@0-0.5 -> | a
1 | () -> | a
1 | a@0-0.5 -> | a
1 | () -> | a
1 | () ->

# a recognizer that is never believed costs no memory (max_tail_s: 10.0)
60 x 1 | ? ->

# empty chunks cost nothing, and a last sample alone is not heard again
0 | ->
end | ->
1 | a@0.2-0.5 -> | a
0 | -> | a
0.0000625 | a@0.2-0.5 -> | a
end | -> a

# a single sample is no speech
0.0000625 | ->
end | ->

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

# a reset starts the clock again
2 | a@0-0.5 -> | a
reset
1 | b@0.1-0.5 -> | b@0.1-0.5
"""


@pytest.mark.parametrize(("script", "settings"), read(SCENARIOS))
def test_scenario(script, settings):
    Scenario(**settings).play(script)


def test_the_recognizer_is_told_what_it_heard_last():
    so, both = "So.@0-0.4", "So.@0-0.4 went@0.6-0.9"
    heard = so, both, "我@0.6-0.9 们@1-1.4", "()", "()", "?", "went@0.6-0.9"
    s = Scenario()
    made = [s.hear(1.0, hypothesis).transcripts for hypothesis in heard]
    # A committed sentence is no longer heard; after silence or doubt there is less to expect.
    assert s.said.expected == ["", "So.", "went", "我们", "我们", "", ""]
    assert made == [Transcripts(1, 1, 2)] * 5 + [Transcripts(1, 1, 0), Transcripts(1, 1, 2)]
    deaf = Scenario(verify=False)
    for hypothesis in (so, both):
        deaf.hear(1.0, hypothesis)
    assert deaf.said.expected == ["", ""]


def test_a_transcript_that_is_not_believed_leaves_everything_as_it_was(caplog):
    Scenario().play(
        [
            "1 | So.@0-0.5 yes@0.6-0.9 -> | So. yes ^",
            "1 | ? -> | So. yes ^",
            "1 | ? -> | So. yes ^",
            "1 | So.@0-0.5 yes@0.6-0.9 -> So. | yes | heard=0-4",
            "1 | ? -> | yes",
            "end | ? -> yes",
        ]
    )
    assert [record.message for record in caplog.records] == [
        "the transcript of 2.0 s of audio does not end and is left out (said once per stream)"
    ]


def test_a_long_noise_does_not_fill_the_log(caplog):
    s = Scenario(max_tail_s=6.0)
    for n in range(12):
        s.hear(1.0, f"a{n}@0-{n + 5.9}")  # a word that never ends
    assert s.tail.tail_s == 6.0
    (warning,) = [record.message for record in caplog.records if "is dropped" in record.message]
    assert warning == "audio without settled words is dropped, 6 s are kept"


class Inventive:
    """Hears a word in sound, and two more in the silence behind it."""

    words = (("Hm.", 0.2, 0.8), ("And", 1.4, 1.6), ("so", 1.6, 1.9))

    def transcribe(self, audio, language, context="", expected=""):
        return Transcript(" ".join(word for word, _, _ in self.words))

    def align(self, audio, text, language):
        return [AlignedItem(*word) for word in self.words]


@pytest.mark.parametrize(
    ("sound", "live"),
    [
        ([0.1] * 10 + [0.0] * 10, "Hm."),
        ([0.1] * 20, "Hm. And so"),
        ([0.0] * 20 + [0.1], ""),
    ],
)
def test_words_that_were_heard_in_silence_are_left_out(sound, live):
    tail = LiveTail(Inventive(), Inventive(), "en", Settings(min_start_s=0.5))
    update = tail.push(np.repeat(sound, SAMPLE_RATE // 10).astype(np.float32))
    assert (texts(update.live.words), update.sentences) == (live, ())


def test_speech_without_punctuation_is_closed_in_the_end():
    script = [Word(f"w{i}", i * 0.5, i * 0.5 + 0.4) for i in range(200)]
    recognizer = ScriptRecognizer(script)
    tail = LiveTail(recognizer, ScriptAligner(recognizer), "en", Settings(max_tail_s=5.0))
    said, longest = [], 0
    for begin in range(100):
        update = tail.push(clock_audio(begin * SAMPLE_RATE, (begin + 1) * SAMPLE_RATE))
        said += [w.text for sentence in update.sentences for w in sentence]
        longest = max(longest, len(update.live.words))
    said += [w.text for sentence in tail.finish().sentences for w in sentence]
    assert said == [word.text for word in script]
    assert longest <= 2 * 5 / 0.5 + 4


def test_silence_is_dropped_and_costs_nothing():
    s = Scenario()
    for _ in range(3):
        update = s.tail.push(np.zeros(SAMPLE_RATE, np.float32))
        assert (update.live.words, update.sentences) == ((), ())
    assert s.tail.tail_s == SILENCE_KEPT_S
    assert s.said.spans == []
    assert s.tail.finish().sentences == ()


def test_quiet_noise_is_dropped_when_nothing_is_heard():
    class Nothing:
        lengths: list[int] = []

        def transcribe(self, audio, language, context="", expected=""):
            self.lengths.append(audio.size)
            return Transcript(" ")

    tail = LiveTail(Nothing(), None, "en", Settings())
    for _ in range(5):
        tail.push(np.full(SAMPLE_RATE, 0.005, np.float32))
    assert max(Nothing.lengths) == int(SAMPLE_RATE * (1 + SILENCE_KEPT_S))


def test_loud_audio_is_heard_at_one_level():
    heard = []

    class Listener:
        def transcribe(self, audio, language, context="", expected=""):
            heard.append((audio, context))
            return Transcript("")

    tail = LiveTail(Listener(), None, "en", Settings(), context="AlignAtt")
    quiet, loud = np.full(SAMPLE_RATE, 0.5, np.float32), np.full(SAMPLE_RATE, -4.0, np.float32)
    tail.push(quiet)
    tail.push(loud)
    (first, context), (both, _) = heard
    assert context == "AlignAtt"
    assert set(first) == {0.5}
    assert (both[0], both[-1], both.dtype) == (0.125, -1.0, np.float32)


def test_a_whole_file_in_one_chunk_is_heard_piece_by_piece():
    script = [Word(f"w{i}x.", i * 0.5, i * 0.5 + 0.4) for i in range(120)]
    recognizer = ScriptRecognizer(script)
    tail = LiveTail(recognizer, ScriptAligner(recognizer), "en", Settings(max_tail_s=10.0))
    update = tail.push(clock_audio(0, 60 * SAMPLE_RATE))
    closed = [*update.sentences, *tail.finish().sentences]
    assert [texts(sentence) for sentence in closed] == [word.text for word in script]
    assert max(end - begin for begin, end in recognizer.spans) <= 15.0


LEXICON = ["the", "cat", "sat.", "Dr.", "no?", "3.", "Then", "e.g.", "yes!”", "—"]


@dataclass
class Chaos:
    """Random hypotheses that often repeat the beginning of the last one; random times."""

    rng: random.Random
    texts: list[str] = field(default_factory=list)

    def transcribe(self, audio, language, context="", expected=""):
        if self.rng.random() < 0.1:
            return Transcript(None)
        self.texts = self.texts[: self.rng.randint(0, len(self.texts) + 3)]
        self.texts = self.texts + self.rng.choices(LEXICON, k=self.rng.randint(0, 4))
        return Transcript(" ".join(self.texts))

    def align(self, audio, text, language):
        duration = audio.size / SAMPLE_RATE
        items, time = [], 0.0
        for word in text.split():
            if self.rng.random() < 0.1:
                continue
            start = time if self.rng.random() < 0.9 else self.rng.choice([-1.0, math.nan, 99.0])
            time += self.rng.random() * duration / len(self.texts) * 1.3
            items.append(AlignedItem(word.strip(".?!"), start, time))
        return items


@settings(max_examples=250, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    chunks=st.lists(st.floats(0.0, 2.4), min_size=1, max_size=16),
    hold_back_ms=st.sampled_from([0, 250, 1000]),
    stable_only=st.booleans(),
    max_tail_s=st.sampled_from([5.0, 30.0]),
    commit=st.sampled_from(["agreed", "ended"]),
)
def test_random_hypotheses(seed, chunks, hold_back_ms, stable_only, max_tail_s, commit):
    """Commits lie in what two hypotheses share, times are absolute and ordered, cost is bounded."""
    rng = random.Random(seed)
    chaos = Chaos(rng)
    config = Settings(
        hold_back_ms=hold_back_ms, stable_only=stable_only, max_tail_s=max_tail_s, commit=commit
    )
    tail = LiveTail(chaos, chaos, "en", config)
    opened = 0  # committed words of the open utterance
    live, latest = [], 0.0
    for seconds in chunks:
        before = [word.text for word in live[opened:]]
        size = int(seconds * SAMPLE_RATE)
        update = tail.push(np.full(size, 0.3, np.float32))
        now = tail.now
        assert tail.tail_s <= max_tail_s + 1e-3
        closed = [word for sentence in update.sentences for word in sentence]
        words = [*closed, *update.live.words]
        # Committed words never change, and times are ordered within the stream.
        assert [w.text for w in words[:opened]] == [w.text for w in live[:opened]]
        flat = [time for word in words for time in (word.start, word.end)]
        assert flat == sorted(flat)
        assert not flat or (flat[0] >= latest - 1e-9 and flat[-1] <= now)
        open_words = len(tail._open)
        committed = [w.text for w in words[: len(closed) + open_words][opened:]]
        if size and tail._heard == tail._received and committed and max_tail_s == 30.0:
            # Nothing was too long: both hypotheses begin with what was committed, or its end stood.
            if committed != before[: len(committed)]:
                end = closed[-1].end
                assert commit == "ended"
                assert now - end >= STANDS_S - 1e-5
                assert any(
                    abs(word.end - end) <= SAME_S + 1e-5 and word.text.rstrip("”")[-1] in ".?!"
                    for word in live[opened:]
                )
            assert open_words == 0
        chaos.texts = chaos.texts[len(committed) :] if committed else chaos.texts
        accessible = update.live.accessible
        assert 0 <= open_words <= accessible <= len(update.live.words)
        for word in update.live.words[open_words:accessible]:
            assert word.end <= now - hold_back_ms / 1000 + 1e-5
        if stable_only:
            shared = before[len(committed) :][: accessible - open_words]
            ready = [w.text for w in update.live.words[open_words:accessible]]
            assert not size or ready == shared
        if closed:
            latest = closed[-1].end
        live, opened = list(update.live.words), open_words
    remaining = tail.finish().sentences
    assert [w.text for s in remaining for w in s][:opened] == [w.text for w in live[:opened]]
    assert tail.finish().sentences == ()


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    chunk=st.sampled_from([0.3, 0.85, 1.5]),
    error_rate=st.sampled_from([0.0, 0.5]),
    fail=st.booleans(),
    commit=st.sampled_from(["agreed", "ended"]),
)
def test_a_script_comes_out_whole(seed, chunk, error_rate, fail, commit):
    """With wrong tails, split words, 80 ms bins and failing engines: each word once, on time."""
    rng = random.Random(seed)
    script, time = [], 0.2
    for i in range(rng.randint(1, 40)):
        end = time + rng.uniform(0.25, 0.5)
        mark = "." if rng.random() < 0.2 else ""
        script.append(Word(rng.choice([f"w{i}", f"long-w{i}"]) + mark, time, end))
        time = end + (rng.uniform(0.2, 1.0) if mark else 0.0)
    recognizer = ScriptRecognizer(script, rng, error_rate)
    recognizer.failing = {2, 5, 6} if fail else set()
    config = Settings(min_start_s=2.0, commit=commit)
    tail = LiveTail(recognizer, ScriptAligner(recognizer), "en", config)
    closed, samples, total = [], 0, int((time + 1.5) * SAMPLE_RATE)
    while samples < total:
        begin, samples = samples, min(total, samples + int(chunk * SAMPLE_RATE))
        try:
            closed += tail.push(clock_audio(begin, samples)).sentences
        except EngineError:
            assert fail
    for _ in range(4):
        try:
            closed += tail.finish().sentences
            break
        except EngineError:
            assert fail
    words = [word for sentence in closed for word in sentence]
    assert [word.text for word in words] == [word.text for word in script]
    for heard, said in zip(words, script, strict=True):
        assert abs(heard.start - said.start) < 0.13
        assert abs(heard.end - said.end) < 0.13
    if error_rate == 0 and not fail:
        assert all(sentence[-1].text.endswith(".") for sentence in closed[:-1])
