"""The live tail: what is committed, accessible and trimmed, on one absolute time base."""

import math
import random
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignatt_agent.speech.commits import SAME_S, STANDS_S
from alignatt_agent.speech.live_tail import SILENCE_KEPT_S, LiveTail
from alignatt_agent.types import (
    SAMPLE_RATE,
    AlignedItem,
    EngineError,
    Transcript,
    Transcripts,
    Word,
)
from tests.fakes.models import ScriptAligner, ScriptRecognizer, Settings, clock_audio, heard_span


@dataclass
class Said:
    """A recogniser and aligner that return prepared hypotheses: ``(word, start, end)`` lists."""

    hypotheses: list[list[tuple[str, float, float]] | Exception | None]
    spans: list[tuple[float, float]] = field(default_factory=list)
    languages: set[str] = field(default_factory=set)
    expected: list[str] = field(default_factory=list)

    def transcribe(self, audio, language, context="", expected=""):
        self.spans.append(heard_span(audio))
        self.languages.add(language)
        self.expected.append(expected)
        if self.hypotheses[0] is None:
            return Transcript(self.hypotheses.pop(0))
        if isinstance(self.hypotheses[0], Exception):
            raise self.hypotheses.pop(0)
        text = " ".join(word for word, _, _ in self.hypotheses[0])
        if not text:
            self.hypotheses.pop(0)
        return Transcript(text, steps=2)

    def align(self, audio, text, language):
        begin, _ = heard_span(audio)
        items = [AlignedItem(w, s - begin, e - begin) for w, s, e in self.hypotheses.pop(0)]
        if any(item.text == "FAIL" for item in items):
            raise EngineError("the fake aligner failed")
        return items


class Stream:
    """A live tail that is fed seconds of clock audio; it commits by the paper's rule."""

    def __init__(self, *hypotheses, verify=True, **settings):
        self.said = Said(list(hypotheses))
        config = Settings(**{"commit": "agreed", **settings})
        self.tail = LiveTail(self.said, self.said, "en", config, verify=verify)
        self.samples = 0

    def hear(self, seconds):
        begin, self.samples = self.samples, self.samples + round(seconds * SAMPLE_RATE)
        return self.tail.push(clock_audio(begin, self.samples))


def texts(words):
    return " ".join(word.text for word in words)


def test_the_recogniser_is_told_what_it_heard_last():
    so, on = ("So.", 0.0, 0.4), ("went", 0.6, 0.9)
    s = Stream([so], [so, on], [("我", 0.6, 0.9), ("们", 1.0, 1.4)], [], [], None, [on])
    made = [s.hear(1.0).transcripts for _ in range(7)]
    # A committed sentence is no longer heard; after silence or doubt there is less to expect.
    assert s.said.expected == ["", "So.", "went", "我们", "我们", "", ""]
    assert made == [Transcripts(1, 1, 2)] * 5 + [Transcripts(1, 1, 0), Transcripts(1, 1, 2)]
    deaf = Stream([so], [so, on], verify=False)
    for _ in range(2):
        deaf.hear(1.0)
    assert deaf.said.expected == ["", ""]


def test_nothing_is_transcribed_before_the_minimum():
    s = Stream([("hi", 0.5, 0.8)], min_start_s=2.0)
    assert s.hear(1.0).live.words == ()
    assert s.hear(0.9).live.words == ()
    assert s.said.spans == []
    assert texts(s.hear(0.1).live.words) == "hi"
    assert s.said.spans == [(0.0, 2.0)]
    assert s.said.languages == {"en"}


def test_a_sentence_is_committed_when_two_hypotheses_agree():
    first = [("So.", 0.0, 0.5), ("It", 0.8, 1.0), ("is", 1.1, 1.4)]
    second = [("So.", 0.0, 0.56), ("It", 0.8, 1.0), ("was", 1.1, 1.4), ("good.", 1.5, 1.9)]
    third = [("It", 0.8, 1.0), ("was", 1.1, 1.4), ("good.", 1.5, 1.84), ("Yes", 2.2, 2.6)]
    s = Stream(first, second, third)
    update = s.hear(1.5)
    assert update.sentences == ()
    assert texts(update.live.words) == "So. It is"
    update = s.hear(1.0)
    assert [texts(sentence) for sentence in update.sentences] == ["So."]
    assert texts(update.live.words) == "It was good."
    assert update.live.words[0] == Word("It", pytest.approx(0.8), pytest.approx(1.0))
    update = s.hear(1.0)
    # The tail began half-way to the next word, and times stay absolute.
    assert s.said.spans[2] == (0.68, 3.5)
    assert update.sentences[0][-1] == Word("good.", pytest.approx(1.5), pytest.approx(1.84))
    assert [texts(sentence) for sentence in update.sentences] == ["It was good."]
    assert texts(update.live.words) == "Yes"
    assert s.tail.tail_s == pytest.approx(3.5 - (1.84 + 2.2) / 2)


class Inventive:
    """Hears a word in sound, and two more in the silence behind it."""

    words = (("Hm.", 0.2, 0.8), ("And", 1.4, 1.6), ("so", 1.6, 1.9))

    def transcribe(self, audio, language, context="", expected=""):
        return Transcript(" ".join(word for word, _, _ in self.words))

    def align(self, audio, text, language):
        return [AlignedItem(*word) for word in self.words]


def test_words_that_were_heard_in_silence_are_left_out():
    tail = LiveTail(Inventive(), Inventive(), "en", Settings(min_start_s=0.5))
    sound = np.full(SAMPLE_RATE, 0.1, np.float32)
    update = tail.push(np.concatenate([sound, 0 * sound]))
    assert [word.text for word in update.live.words] == ["Hm."]
    whole = LiveTail(Inventive(), Inventive(), "en", Settings(min_start_s=0.5))
    assert texts(whole.push(np.concatenate([sound, sound])).live.words) == "Hm. And so"


def test_nothing_but_invented_words_is_nothing():
    tail = LiveTail(Inventive(), Inventive(), "en", Settings(min_start_s=0.5))
    sound = np.full(SAMPLE_RATE // 10, 0.1, np.float32)
    silence = np.zeros(20 * sound.size, np.float32)
    update = tail.push(np.concatenate([silence, sound]))
    assert update.live.words == ()
    assert update.sentences == ()


def test_two_sentences_at_once_and_no_abbreviation():
    words = [("Yes.", 0.0, 0.3), ("Dr.", 0.4, 0.5), ("No", 0.5, 0.7), ("came.", 0.8, 1.0)]
    update_words = [*words, ("e.g.", 1.2, 1.4), ("at", 1.4, 1.6)]
    s = Stream(update_words, update_words)
    s.hear(2.0)
    update = s.hear(0.5)
    assert [texts(sentence) for sentence in update.sentences] == ["Yes.", "Dr. No came."]
    assert texts(update.live.words) == "e.g. at"


def test_accessible_words_are_older_than_the_hold_back():
    words = [("a", 0.0, 0.5), ("b", 0.6, 1.2), ("c", 1.3, 1.75), ("d", 1.8, 2.0)]
    assert Stream(words).hear(2.0).live.accessible == 4
    assert Stream(words, hold_back_ms=250).hear(2.0).live.accessible == 3
    assert Stream(words, hold_back_ms=251).hear(2.0).live.accessible == 2
    assert Stream(words, hold_back_ms=2000).hear(2.0).live.accessible == 0


def test_the_hold_back_still_works_after_the_first_sentence():
    first = [("So.", 0.0, 0.5), ("a", 1.0, 1.5)]
    s = Stream(first, first, [("a", 1.0, 1.5), ("b", 1.6, 3.4)], hold_back_ms=250)
    s.hear(2.0)
    assert s.hear(0.5).live.accessible == 1
    update = s.hear(1.0)
    assert (texts(update.live.words), update.live.accessible) == ("a b", 1)


def test_a_word_that_goes_on_past_the_audio_is_not_accessible():
    view = Stream([("a", 0.0, 0.5), ("cut", 1.6, 2.08)]).hear(2.0).live
    assert view.accessible == 1
    assert view.words[1].end == 2.0


def test_stable_only():
    s = Stream(
        [("a", 0.0, 0.3), ("b", 0.4, 0.6)],
        [("a", 0.0, 0.3), ("x", 0.4, 0.6), ("c", 0.7, 0.9)],
        [("a", 0.0, 0.3), ("x", 0.4, 0.6), ("c", 0.7, 0.9)],
        stable_only=True,
    )
    assert [s.hear(1.0).live.accessible for _ in range(3)] == [0, 1, 3]


def test_audio_of_the_last_word_is_trimmed_even_when_nothing_follows():
    said = [("So.", 0.0, 0.5)]
    s = Stream(said, said)
    s.hear(1.5)
    assert [texts(sentence) for sentence in s.hear(1.0).sentences] == ["So."]
    # Both hypotheses heard the full stop, so the word was over when the first one was made.
    assert s.tail.tail_s == pytest.approx(2.5 - (0.5 + 1.5) / 2)


def test_a_long_tail_commits_its_stable_words_into_the_open_utterance():
    words = [(f"w{i}", i * 1.0, i + 0.9) for i in range(9)]
    last = [*words[5:8], ("new.", 8.0, 8.8)]
    s = Stream(words[:3], words[:5], words[:7], last, max_tail_s=6.0)
    s.hear(3.0)
    s.hear(2.0)
    update = s.hear(2.0)  # 7 s: the five words that both have are committed
    assert update.sentences == ()
    assert texts(update.live.words) == "w0 w1 w2 w3 w4 w5 w6"
    assert s.tail.tail_s == pytest.approx(7 - 4.95)  # half-way to the next word
    update = s.hear(2.0)
    assert s.said.spans[3] == (pytest.approx(4.95), 9.0)
    # The committed words stay and are accessible.
    assert texts(update.live.words) == "w0 w1 w2 w3 w4 w5 w6 w7 new."
    assert update.live.accessible == 9


def test_a_long_pause_closes_an_unfinished_sentence():
    begun = [("Um", 0.2, 0.5), ("we", 0.6, 1.0)]
    s = Stream(begun, begun, begun, [("went.", 5.0, 5.4)], commit="ended")
    assert [s.hear(1.5).sentences for _ in range(2)] == [(), ()]
    assert [texts(sentence) for sentence in s.hear(1.0).sentences] == ["Um we"]
    assert texts(s.hear(1.5).live.words) == "went."
    assert s.said.spans[-1][0] > 1.0
    papers = Stream(begun, begun, begun)
    assert [papers.hear(1.5).sentences for _ in range(3)] == [(), (), ()]


def test_a_sentence_that_is_heard_late_does_not_reach_over_a_long_pause():
    noise, speech = [("Um", 0.2, 0.5)], [("We", 5.0, 5.2), ("went.", 5.3, 5.6)]
    after = [("Then", 6.0, 6.2), ("we", 6.3, 6.5)]
    whole = [*noise, *speech, *after]
    for rule, expected in (("ended", ["Um", "We went."]), ("agreed", ["Um We went."])):
        s = Stream([], whole, whole, commit=rule)
        update = [s.hear(4.0), s.hear(3.0), s.hear(0.5)][-1]
        assert [texts(sentence) for sentence in update.sentences] == expected
        assert texts(update.live.words) == "Then we"


def test_a_long_pause_closes_the_open_utterance():
    words = [(f"w{i}", i * 1.0, i + 0.9) for i in range(7)]
    s = Stream(words[:3], words[:5], words, [], [], max_tail_s=6.0, commit="ended")
    assert [s.hear(seconds).sentences for seconds in (3.0, 2.0, 2.0, 1.0)] == [()] * 4
    update = s.hear(0.5)  # w5 and w6 are taken back
    assert [texts(sentence) for sentence in update.sentences] == ["w0 w1 w2 w3 w4"]
    assert update.live.words == ()


def test_a_long_tail_without_stable_words_is_settled_or_dropped():
    changing = [[(f"v{n}w{i}", i + 0.0, i + 0.9) for i in range(2 * n)] for n in range(1, 6)]
    s = Stream(*changing, max_tail_s=6.0)
    for _ in range(3):
        s.hear(2.0)
        assert s.tail.tail_s <= 6.0
    update = s.hear(2.0)  # 8 s, nothing agrees: what is older than 3 s is taken as it is
    assert texts(update.live.words).startswith("v4w0 v4w1 v4w2 v4w3 v4w4")
    assert s.tail.tail_s <= 6.0
    noise = Stream([], [], [], [], max_tail_s=6.0)
    for _ in range(4):
        noise.hear(2.0)
        assert noise.tail.tail_s <= 6.0


def test_a_long_noise_does_not_fill_the_log(caplog):
    drone = [[(f"a{n}", 0.0, n + 5.9)] for n in range(12)]  # one word that never ends
    s = Stream(*drone, max_tail_s=6.0)
    for _ in drone:
        s.hear(1.0)
    assert s.tail.tail_s == 6.0
    (warning,) = [record.message for record in caplog.records if "is dropped" in record.message]
    assert warning == "audio without settled words is dropped, 6 s are kept"


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
    s = Stream()
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


def test_one_empty_transcript_of_audible_audio_takes_nothing_back():
    s = Stream([("a", 0.0, 0.5)], [], [("a", 0.0, 0.5)], [], [])
    for expected in ("a", "a", "a", "a", ""):
        assert texts(s.hear(1.0).live.words) == expected


def test_a_transcript_that_is_not_believed_leaves_everything_as_it_was(caplog):
    words = [("So.", 0.0, 0.5), ("yes", 0.6, 0.9)]
    s = Stream(words, None, None, words, None)
    first = s.hear(1.0)
    for _ in range(2):
        update = s.hear(1.0)
        assert (update.live, update.sentences) == (first.live, ())
    update = s.hear(1.0)  # two hypotheses agree, whatever came between them
    assert [texts(sentence) for sentence in update.sentences] == ["So."]
    assert s.said.spans[-1] == (0.0, 4.0)
    s.hear(1.0)
    s.said.hypotheses = [None]
    assert [texts(sentence) for sentence in s.tail.finish().sentences] == ["yes"]
    assert [record.message for record in caplog.records] == [
        "the transcript of 2.0 s of audio does not end and is left out (said once per stream)"
    ]


def test_a_recogniser_that_is_never_believed_costs_no_memory():
    s = Stream(*[None] * 60, max_tail_s=10.0)
    for _ in range(60):
        assert s.hear(1.0).live.words == ()
        assert s.tail.tail_s <= 10.0


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


def test_empty_chunks_and_single_samples():
    s = Stream([("a", 0.2, 0.5)], [("a", 0.2, 0.5)], [("a", 0.2, 0.5)])
    assert s.hear(0).live.words == ()
    assert s.tail.finish().sentences == ()
    s.hear(1.0)
    before = s.hear(0)
    assert len(s.said.spans) == 1
    assert texts(before.live.words) == "a"
    assert texts(s.hear(1 / SAMPLE_RATE).live.words) == "a"
    assert [texts(sentence) for sentence in s.tail.finish().sentences] == ["a"]
    assert len(s.said.spans) == 2  # the last sample was heard already
    single = Stream()
    single.hear(1 / SAMPLE_RATE)
    assert single.tail.finish().sentences == ()
    assert single.said.spans == []


def test_finish_hears_the_rest_and_closes_everything():
    words = [("It.", 0.0, 0.2), ("is", 0.3, 0.5), ("over", 0.6, 0.9)]
    s = Stream(words, min_start_s=2.0)
    s.hear(1.0)
    update = s.tail.finish()
    assert [texts(sentence) for sentence in update.sentences] == ["It.", "is over"]
    assert (update.live.words, update.live.accessible) == ((), 0)
    assert s.tail.finish().sentences == ()


def test_useless_times_do_not_commit_a_word_twice():
    words = [("So.", 0.0, 0.0), ("yes", 0.0, 0.0)]
    s = Stream(words, words, [("yes", 2.0, 2.5)])
    s.hear(1.0)
    assert texts(s.hear(1.0).sentences[0]) == "So."
    assert s.tail.tail_s == 1.0  # one of two words


def test_an_engine_failure_keeps_audio_and_words():
    words = [("So.", 0.0, 0.5), ("yes", 0.6, 0.9)]
    s = Stream(words, EngineError("down"), [("FAIL", 0.0, 1.0)], words)
    s.hear(1.0)
    for _ in range(2):
        with pytest.raises(EngineError):
            s.hear(1.0)
    update = s.hear(1.0)
    assert s.said.spans[-1] == (0.0, 4.0)
    assert [texts(sentence) for sentence in update.sentences] == ["So."]
    s.said.hypotheses = [EngineError("down")] * 99
    for _ in range(80):
        with pytest.raises(EngineError):
            s.hear(1.0)
    assert s.tail.tail_s <= 60.0


def test_a_whole_file_in_one_chunk_is_heard_piece_by_piece():
    script = [Word(f"w{i}x.", i * 0.5, i * 0.5 + 0.4) for i in range(120)]
    recognizer = ScriptRecognizer(script)
    tail = LiveTail(recognizer, ScriptAligner(recognizer), "en", Settings(max_tail_s=10.0))
    update = tail.push(clock_audio(0, 60 * SAMPLE_RATE))
    closed = [*update.sentences, *tail.finish().sentences]
    assert [texts(sentence) for sentence in closed] == [word.text for word in script]
    assert max(end - begin for begin, end in recognizer.spans) <= 15.0


def test_reset_starts_the_clock_again():
    s = Stream([("a", 0.0, 0.5)], [("b", 0.1, 0.5)])
    s.hear(2.0)
    s.tail.reset()
    s.samples = 0
    assert s.tail.now == 0
    assert s.hear(1.0).live.words == (Word("b", pytest.approx(0.1), pytest.approx(0.5)),)


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
