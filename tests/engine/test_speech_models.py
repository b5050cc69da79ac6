"""Prompts and decoding of the recogniser and the aligner, without an engine."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alignatt_agent.speech.aligner import QwenAligner, monotone, split_words
from alignatt_agent.speech.recognizer import QwenRecognizer

SECOND = np.zeros(16_000, dtype=np.float32)


class Tokenizer:
    def encode(self, text, add_special_tokens):
        assert not add_special_tokens
        return [ord(c) for c in text]

    def decode(self, ids, skip_special_tokens):
        assert skip_special_tokens
        return "".join(map(chr, ids))


class Model:
    """Answers with what it was built with and remembers what it was asked."""

    bin_ms = 80.0

    def __init__(self, answer):
        self.tokenizer = Tokenizer()
        self.answer = answer
        self.asked = []

    def generate(self, token_ids, audio, max_tokens):
        self.asked.append(("".join(map(chr, token_ids)), len(audio), max_tokens))
        return [ord(c) for c in self.answer]

    def bins(self, token_ids, audio):
        self.asked.append(("".join(map(chr, token_ids)), len(audio)))
        return self.answer


def test_transcribe_forces_the_language_and_bounds_the_answer():
    model = Model(" Hello there. ")
    assert QwenRecognizer(model).transcribe(np.tile(SECOND, 4), "en") == "Hello there."
    ((prompt, samples, limit),) = model.asked
    assert prompt == (
        "<|im_start|>user\n<|audio_start|><|audio_pad|><|audio_end|><|im_end|>\n"
        "<|im_start|>assistant\nlanguage English<asr_text>"
    )
    assert samples == 64_000
    assert 24 < limit < 100


def test_short_audio_never_reaches_an_engine():
    model = Model([])
    for samples in (0, 1, 1599):
        assert QwenRecognizer(model).transcribe(SECOND[:samples], "en") == ""
        assert QwenAligner(model).align(SECOND[:samples], "hello", "en") == []
    assert QwenAligner(model).align(SECOND, " , . ", "en") == []
    assert model.asked == []


def test_audio_below_half_a_second_is_padded():
    model = Model("")
    QwenRecognizer(model).transcribe(SECOND[:2000], "en")
    assert model.asked[0][1] == 8000


def test_unknown_languages_are_named():
    with pytest.raises(ValueError, match="no language 'xx'"):
        QwenRecognizer(Model("")).transcribe(SECOND, "xx")
    with pytest.raises(ValueError, match="'ja' needs a word splitter"):
        QwenAligner(Model([])).align(SECOND, "a", "ja")


def test_align_gives_times_that_may_lie_past_the_audio():
    model = Model([1, 3, 4, 400])
    items = QwenAligner(model).align(np.tile(SECOND, 2), "Well, it's…", "en")
    assert [(i.text, i.start, i.end) for i in items] == [("Well", 0.08, 0.24), ("it's", 0.32, 32.0)]
    assert model.asked[0][0] == (
        "<|audio_start|><|audio_pad|><|audio_end|>"
        "Well<timestamp><timestamp>it's<timestamp><timestamp>"
    )


def test_words_for_alignment():
    assert split_words("The U.S. model, 3.5 (new) - it's!", "en") == [
        "The", "US", "model", "35", "new", "it's",
    ]  # fmt: skip
    assert split_words("我们用GPU训练", "zh") == ["我", "们", "用", "GPU", "训", "练"]
    assert split_words("  ", "en") == []


@pytest.mark.parametrize(
    ("raw", "fixed"),
    [
        ([], []),
        ([5], [5]),
        ([1, 2, 2, 7], [1, 2, 2, 7]),
        ([1, 90, 3, 4], [1, 1, 3, 4]),
        ([1, 90, 80, 3, 4], [1, 1, 3, 3, 4]),
        ([0, 90, 80, 70, 4, 5, 6, 7], [0, 1, 2, 3, 4, 5, 6, 7]),
        ([90, 1, 2], [1, 1, 2]),
        ([1, 2, 0], [1, 2, 2]),
    ],
)
def test_monotone_moves_strays_only(raw, fixed):
    assert monotone(raw) == fixed


@given(st.lists(st.integers(0, 400), max_size=60))
def test_monotone_never_falls_and_stays_in_range(values):
    fixed = monotone(values)
    assert len(fixed) == len(values)
    assert all(a <= b for a, b in pairwise(fixed))
    assert all(min(values) <= x <= max(values) for x in fixed)
    if values == sorted(values):
        assert fixed == values
