"""Words, times and sentences of a transcript; damaged audio."""

import itertools
import logging
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from alignatt_agent.speech.sentences import ends_sentence, last_sentence_end, split_sentences
from alignatt_agent.speech.waveform import Intake, audible, in_range, loudness, quietest
from alignatt_agent.speech.word_times import time_words
from alignatt_agent.types import Word
from alignatt_agent.types.engines import AlignedItem


@pytest.mark.parametrize(
    ("words", "always", "before_a_capital"),
    [
        ('done. done? done! "Done." done.” (done.) 好。 好？」 I. MT.', True, True),
        ("done done, done; e.g. (i.e. 3.5 Dr. Mr. J. U.S. al. Fig. vs. Ph.D. so...", False, False),
        ("3. GPT-4. 2019. a.m. etc.", False, True),
    ],
    ids=["sentences", "no sentences", "numbers and what may abbreviate"],
)
def test_what_ends_a_sentence(words, always, before_a_capital):
    for word in words.split():
        for following in (None, "million", "5"):
            assert ends_sentence(word, following) == always, word
        for following in ("Then", "“Then"):
            assert ends_sentence(word, following) == before_a_capital, word


def test_splitting():
    texts = "Hi. It is Dr. No in 1962.".split()  # noqa: SIM905
    words = [Word(text, i, i + 1) for i, text in enumerate(texts)]
    sentences, rest = split_sentences(words, None)
    assert [[w.text for w in s] for s in sentences] == [["Hi."]]
    assert [w.text for w in rest] == ["It", "is", "Dr.", "No", "in", "1962."]
    assert split_sentences(words, "Then")[1] == []
    assert last_sentence_end(texts, 7) == 1
    assert last_sentence_end([*texts, "Then"], 7) == 7
    assert last_sentence_end(texts, 0) == 0


def items(*triples):
    return [AlignedItem(*triple) for triple in triples]


def test_times_follow_the_text_not_the_index():
    spans = time_words(
        ["Hello,", "—", "world!"], items(("hello", 0.1, 0.4), ("WORLD", 0.6, 0.9)), 1.0
    )
    assert spans == [(0.1, 0.4), (0.4, 0.6), (0.6, 0.9)]


def test_split_and_joined_words():
    spans = time_words(
        ["state-of-art", "is", "cannot"],
        items(
            ("state", 0.0, 0.5), ("of", 0.5, 0.7), ("art", 0.7, 1.0), ("is", 1.2, 1.4),
            ("can", 1.5, 1.7), ("not", 1.7, 2.0),
        ),
        2.0,
    )  # fmt: skip
    assert spans == [(0.0, 1.0), (1.2, 1.4), (1.5, 2.0)]
    # One item for two words: by characters, 3 of 5.
    spans = time_words(["fif", "ty", "x"], items(("fifty", 1.0, 2.0), ("x", 2.5, 3.0)), 3.0)
    assert spans == [(1.0, pytest.approx(1.6)), (pytest.approx(1.6), 2.0), (2.5, 3.0)]


def test_missing_items_share_the_gap_by_length():
    spans = time_words(["a", "bb", "c", "dd"], items(("a", 0.0, 0.4), ("dd", 1.0, 1.2)), 2.0)
    assert spans == [(0.0, 0.4), (0.4, pytest.approx(0.8)), (pytest.approx(0.8), 1.0), (1.0, 1.2)]
    assert time_words(["aa", "bb"], [], 2.0) == [(0.0, 1.0), (1.0, 2.0)]
    assert time_words([], items(("a", 0.0, 1.0)), 2.0) == []


def test_a_word_may_end_past_the_audio():
    assert time_words(["cut"], items(("cut", 0.9, 1.28)), 1.0) == [(0.9, 1.28)]


def test_times_that_are_no_numbers_are_not_used():
    spans = time_words(["a", "b"], items(("a", math.nan, 0.5), ("b", 1.0, 2.0)), 2.0)
    assert spans == [(0.0, 1.0), (1.0, 2.0)]


TIME = st.one_of(st.floats(-1, 12), st.sampled_from([math.nan, math.inf]))


@settings(max_examples=300, deadline=None)
@given(
    words=st.lists(st.sampled_from(["a", "b,", "C-d", "3.5", "—", "好吗"]), max_size=8),
    found=st.lists(
        st.builds(AlignedItem, st.sampled_from(["a", "b", "cd", "c", "d", "", "zz"]), TIME, TIME),
        max_size=8,
    ),
    duration=st.floats(0.1, 10),
)
def test_times_are_in_order_for_any_alignment(words, found, duration):
    spans = time_words(words, found, duration)
    assert len(spans) == len(words)
    flat = [time for span in spans for time in span]
    assert flat == sorted(flat)
    assert all(time >= 0 and math.isfinite(time) for time in flat)


def test_damaged_samples_are_repaired_with_one_warning_each(caplog):
    intake = Intake()
    chunk = np.array([0.5, np.nan, 2.0, -np.inf, 1e300])
    chunk.flags.writeable = False
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            sound = intake(chunk)
    assert sound.tolist() == [0.5, 0.0, 2.0, -1.0, 1.0]
    assert sound.dtype == np.float32
    assert len(caplog.records) == 2
    assert {"NaN" in r.message or "outside [-1, 1]" in r.message for r in caplog.records} == {True}
    caplog.clear()
    assert intake(np.array([0.25, -1.0])).tolist() == [0.25, -1.0]
    assert not caplog.records


def test_peaks_above_one_are_scaled_and_clicks_clipped():
    calm = np.linspace(-1, 1, 5000, dtype=np.float32)
    assert in_range(calm) is calm
    np.testing.assert_allclose(in_range(np.tile([0.5, -2.0, 1.0], 1000)), [0.25, -1, 0.5] * 1000)
    np.testing.assert_allclose(in_range(32768 * calm), calm, atol=2e-3)  # as integers
    click = calm.copy()
    click[77] = 3000.0
    assert in_range(click)[77] == 1.0
    np.testing.assert_array_equal(np.delete(in_range(click), 77), np.delete(calm, 77))
    assert in_range(np.zeros(0, np.float32)).size == 0


@pytest.mark.parametrize(
    ("chunk", "shape"),
    [
        (np.zeros((2, 8), np.float32), r"\[2, 8\] of float32"),
        (np.zeros(4, np.int16), r"\[4\] of int16"),
        (np.float32(0), r"\[\] of float32"),
    ],
)
def test_what_is_no_mono_waveform_is_refused(chunk, shape):
    with pytest.raises(ValueError, match=rf"shape \[samples\] .* got shape {shape}"):
        Intake()(chunk)


def test_loudness():
    assert loudness(np.zeros(0, np.float32)) == 0.0
    burst = np.zeros(16000, np.float32)
    burst[3200:3520] = 0.5
    assert loudness(burst) == pytest.approx(0.5)
    assert loudness(np.full(500, 0.1, np.float32)) == pytest.approx(0.1)


def test_the_quietest_place():
    rng = np.random.default_rng(0)
    audio = rng.normal(0, 0.2, 32_000).astype(np.float32)
    audio[9_000:11_000] *= 0.01  # the rest of a word, a pause, the next word
    assert 9_400 <= quietest(audio, 4_000, 16_000) <= 10_600
    assert quietest(audio * 0, 4_000, 16_000) == 10_000
    assert quietest(audio, 10_000, 10_500) == 10_250  # shorter than any place
    assert quietest(audio, 10_000, 10_000) == 10_000
    assert 30_000 <= quietest(audio, 30_000, 40_000) <= 32_000


@given(begin=st.integers(0, 5_000), length=st.integers(0, 5_000), seed=st.integers(0, 99))
def test_a_quiet_place_lies_between(begin, length, seed):
    audio = np.random.default_rng(seed).normal(0, 0.1, 10_000).astype(np.float32)
    assert begin <= quietest(audio, begin, begin + length) <= begin + length


def test_what_is_audible():
    sound = np.concatenate([np.full(16_000, 0.1), np.zeros(16_000)]).astype(np.float32)
    # Word times err, which is why the third is; the last is timed past the end.
    spans = [(0.2, 0.513), (0.2, 1.8), (1.05, 1.3), (1.2, 1.5), (2.5, 2.6)]
    parts = [(0.2, 0.513), (0.2, 0.98), (0.98, 0.98), None, None]
    assert audible(sound, spans) == parts
    assert audible(sound[::-1], [(0.5, 1.4), (0.5, 0.95)]) == [(1.02, 1.4), (1.02, 1.02)]
    assert audible(sound[:16_000], [(1.5, 1.6)]) == [(1.5, 1.6)]  # who speaks at the end goes on
    assert audible(sound[:0], [(0.0, 0.1)]) == [None]
    twice = np.concatenate([sound[8_000:], sound])  # half a second, one of silence, one of sound
    assert audible(twice, [(0.3, 2.3)]) == [(1.52, 2.3)]
    assert audible(twice, [(0.1, 1.7)]) == [(0.1, 0.48)]
    assert audible(twice[12_000:], [(0.0, 1.5)]) == [(0.76, 1.5)]
    assert audible(sound, []) == []


@example(times=[0.0, 0.3125], size=5_125)  # five samples more than whole frames
@given(
    times=st.lists(st.floats(0, 1.2), min_size=2, max_size=12),
    size=st.integers(1_600, 16_000),
)
def test_words_in_sound_keep_their_times(times, size):
    ordered = sorted(times)
    spans = list(itertools.pairwise(ordered))
    noise = np.random.default_rng(size).normal(0, 0.01, size).astype(np.float32)
    assert audible(noise, spans) == spans
