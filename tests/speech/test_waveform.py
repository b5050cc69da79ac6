"""Sound and silence: damaged samples, levels, quiet places, and audible parts."""

import itertools
import logging
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alignatt_agent.speech.live_tail import SILENCE_KEPT_S, LiveTail
from alignatt_agent.speech.waveform import Intake, audible, in_range, quietest
from alignatt_agent.types import SAMPLE_RATE, Transcript
from alignatt_agent.types.engines import AlignedItem
from tests.fakes.speech import Settings


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


def test_the_quietest_place():
    rng = np.random.default_rng(0)
    audio = rng.normal(0, 0.2, 32_000).astype(np.float32)
    audio[9_000:11_000] *= 0.01  # the rest of a word, a pause, the next word
    assert 9_400 <= quietest(audio, 4_000, 16_000) <= 10_600
    assert quietest(audio * 0, 4_000, 16_000) == 10_000
    assert quietest(audio, 10_000, 10_500) == 10_250  # shorter than any place
    assert quietest(audio, 10_000, 10_000) == 10_000
    assert 30_000 <= quietest(audio, 30_000, 40_000) <= 32_000


def test_what_is_audible():
    sound = np.concatenate([np.full(16_000, 0.1), np.zeros(16_000)]).astype(np.float32)
    # Word times err, so the third span is audible; the last one is timed past the end.
    spans = [(0.2, 0.513), (0.2, 1.8), (1.05, 1.3), (1.2, 1.5), (2.5, 2.6)]
    parts = [(0.2, 0.513), (0.2, 0.98), (0.98, 0.98), None, None]
    assert audible(sound, spans) == parts
    assert audible(sound[::-1], [(0.5, 1.4), (0.5, 0.95)]) == [(1.02, 1.4), (1.02, 1.02)]
    assert audible(sound[:16_000], [(1.5, 1.6)]) == [(1.5, 1.6)]  # a word at the end continues
    assert audible(sound[:0], [(0.0, 0.1)]) == [None]
    twice = np.concatenate([sound[8_000:], sound])  # half a second, one of silence, one of sound
    assert audible(twice, [(0.3, 2.3)]) == [(1.52, 2.3)]
    assert audible(twice, [(0.1, 1.7)]) == [(0.1, 0.48)]
    assert audible(twice[12_000:], [(0.0, 1.5)]) == [(0.76, 1.5)]
    assert audible(sound, []) == []


@example(times=[0.0, 0.3125], size=5_125)  # five samples more than whole frames
@given(times=st.lists(st.floats(0, 1.2), min_size=2, max_size=12), size=st.integers(1_600, 16_000))
def test_words_in_sound_keep_their_times(times, size):
    ordered = sorted(times)
    spans = list(itertools.pairwise(ordered))
    noise = np.random.default_rng(size).normal(0, 0.01, size).astype(np.float32)
    assert audible(noise, spans) == spans


@pytest.mark.parametrize(
    ("sound", "live"),
    [([0.1] * 10 + [0.0] * 10, "Hm."), ([0.1] * 20, "Hm. And so"), ([0.0] * 20 + [0.1], "")],
)
def test_words_that_were_heard_in_silence_are_left_out(sound, live):
    words = ("Hm.", 0.2, 0.8), ("And", 1.4, 1.6), ("so", 1.6, 1.9)
    inventive = SimpleNamespace(
        transcribe=lambda *_: Transcript("Hm. And so"),
        align=lambda *_: [AlignedItem(*word) for word in words],
    )
    tail = LiveTail(inventive, inventive, "en", Settings(min_start_s=0.5))
    update = tail.push(np.repeat(sound, SAMPLE_RATE // 10).astype(np.float32))
    said = " ".join(word.text for word in update.live.words)
    assert (said, update.sentences) == (live, ())


@pytest.mark.parametrize(
    ("levels", "heard_s", "kept_s"),
    [
        ([0.0] * 3, [], SILENCE_KEPT_S),
        ([0.005] * 3, [1, 1 + SILENCE_KEPT_S, 1 + SILENCE_KEPT_S], SILENCE_KEPT_S),
        ([0.5, -4.0], [1, 2], 2),
    ],
    ids=["silence", "quiet noise", "what is too loud"],
)
def test_silence_and_noise_are_dropped_and_loud_audio_is_scaled(levels, heard_s, kept_s):
    heard = []  # in which audio, and with which context

    def transcribe(audio, language, context, expected):
        heard.append((audio, context))
        return Transcript(" ")

    deaf = SimpleNamespace(transcribe=transcribe)
    tail = LiveTail(deaf, None, "en", Settings(), context="AlignAtt")
    for level in levels:
        update = tail.push(np.full(SAMPLE_RATE, level, np.float32))
        assert (update.live.words, update.sentences) == ((), ())
    assert tail.tail_s == kept_s
    assert [audio.size / SAMPLE_RATE for audio, _ in heard] == heard_s
    assert {context for _, context in heard} <= {"AlignAtt"}
    assert tail.finish().sentences == ()
    if levels[-1] == -4.0:
        (first, _), (both, _) = heard
        assert set(first) == {0.5}
        assert (both[0], both[-1], both.dtype) == (0.125, -1.0, np.float32)
