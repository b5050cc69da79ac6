"""Hypotheses and word times of the real models, recorded tick by tick (``ALIGNATT_FIXTURES``)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from alignatt_agent.config.sections import SpeechConfig
from alignatt_agent.speech import commits
from alignatt_agent.speech.live_tail import LiveTail
from alignatt_agent.types import SAMPLE_RATE, Transcript, Word
from alignatt_agent.types.engines import AlignedItem
from tests.fakes.models import clock_audio, heard_span
from tests.speech.recognizer_errors import ErrorModel, stream

TICKS = Path(os.environ.get("ALIGNATT_FIXTURES", "none"), "qwen3_ticks.json")


class RecordedModels:
    """What the models made of a talk at every tick, as far as the tail still has its audio."""

    def __init__(self, ticks):
        self.ticks, self.heard = ticks, []

    def transcribe(self, audio, language, context="", expected=""):
        begin, end = heard_span(audio)
        tick = next(tick for tick in self.ticks if abs(tick["tick_s"] - end) < 0.01)
        words = zip(tick["text"].split(), tick["words"], strict=True)
        self.heard = [(text, w) for text, w in words if (w["start"] + w["end"]) / 2 >= begin]
        return Transcript(" ".join(text for text, _ in self.heard))

    def align(self, audio, text, language):
        begin, _ = heard_span(audio)
        return [AlignedItem(w["text"], w["start"] - begin, w["end"] - begin) for _, w in self.heard]


@pytest.fixture(scope="module")
def ticks():
    if not TICKS.is_file():
        pytest.skip("not run: ALIGNATT_FIXTURES names no folder with qwen3_ticks.json")
    return json.loads(TICKS.read_text(encoding="utf-8"))["ticks"]


@pytest.mark.parametrize("rule", ["agreed", "ended"])
@pytest.mark.parametrize("hold_back_ms", [0, 250])
def test_every_word_comes_out_once(ticks, rule, hold_back_ms):
    models = RecordedModels(ticks)
    tail = LiveTail(models, models, "en", SpeechConfig(commit=rule, hold_back_ms=hold_back_ms))
    closed, begin = [], 0
    for tick in ticks:
        end = round(tick["tick_s"] * SAMPLE_RATE)
        closed += tail.push(clock_audio(begin, end)).sentences
        begin = end
    assert closed  # not all at the end
    closed += tail.finish().sentences
    assert [word.text for sentence in closed for word in sentence] == ticks[-1]["text"].split()


def test_periods_wherever_the_audio_ends(ticks, monkeypatch):
    words = zip(ticks[-1]["text"].split(), ticks[-1]["words"], strict=True)
    talk = [
        Word(f"w{i}e" + "." * text.endswith("."), word["start"], word["end"])
        for i, (text, word) in enumerate(words)
    ]
    found = {}
    for pause_s in (0.25, commits.PAUSE_S):
        monkeypatch.setattr(commits, "PAUSE_S", pause_s)
        for chunk_ms in (100, 250, 500):
            errors = ErrorModel(talk, period=1.0, guess=1.0, capital=1.0)
            result = stream(talk, errors, chunk_ms, commit="ended")
            assert (result.lost, result.doubled, result.cuts) == (0, 0, 0)
            found.setdefault(pause_s, []).append(result.false_ends)
    assert min(found[0.25]) >= 5
    assert max(found[commits.PAUSE_S]) <= 1
