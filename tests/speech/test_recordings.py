"""What real models recognized, from ``ALIGNATT_FIXTURES``: pauses of talks, and hypotheses."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from alignatt_agent.config.sections import SpeechConfig
from alignatt_agent.speech.live_tail import LiveTail
from alignatt_agent.types import SAMPLE_RATE, Transcript
from alignatt_agent.types.engines import AlignedItem
from tests.fakes.models import clock_audio, heard_span
from tests.speech.recognizer_errors import ErrorModel, recorded_talks, stream

FOLDER = Path(os.environ.get("ALIGNATT_FIXTURES", "not set"))

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="needs recordings: set ALIGNATT_FIXTURES to their folder"
)


@pytest.mark.parametrize("chunk_ms", [250, 500])
def test_one_false_end_in_a_hundred_sentences(chunk_ms):
    """Only pieces with a long pause inside a sentence can have one."""
    talks = recorded_talks(FOLDER / "talk_pauses.json")
    sentences = sum(word.text.endswith(".") for talk in talks for word in talk)
    false_ends = heard = 0
    for number, talk in enumerate(talks):
        inside = (pair for pair in pairwise(talk) if not pair[0].text.endswith("."))
        if max(after.start - word.end for word, after in inside) >= 0.8:
            found = stream(talk, ErrorModel(talk, number), chunk_ms, hold_back_ms=100)
            assert (found.doubled, found.early, found.cuts) == (0, 0, 0)
            assert found.lost <= 1  # a whole word may be as short as the rest of one
            false_ends, heard = false_ends + found.false_ends, heard + 1
    assert heard >= 10
    assert false_ends <= sentences / 100


@dataclass
class Ticks:
    """What the real models made of a talk every 2 s, as far as the tail still has its audio."""

    ticks: list[dict]
    heard: list[tuple[str, dict]] = field(default_factory=list)

    def transcribe(self, audio, language, context="", expected=""):
        begin, end = heard_span(audio)
        tick = next(tick for tick in self.ticks if abs(tick["tick_s"] - end) < 0.01)
        words = zip(tick["text"].split(), tick["words"], strict=True)
        self.heard = [(text, w) for text, w in words if (w["start"] + w["end"]) / 2 >= begin]
        return Transcript(" ".join(text for text, _ in self.heard))

    def align(self, audio, text, language):
        begin, _ = heard_span(audio)
        return [AlignedItem(w["text"], w["start"] - begin, w["end"] - begin) for _, w in self.heard]


@pytest.mark.parametrize("rule", ["agreed", "ended"])
@pytest.mark.parametrize(
    ("aligned", "hold_back_ms", "early"), [(True, 0, 5), (True, 250, 0), (False, 0, 0)]
)
def test_words_that_are_accessible_before_they_are_over(rule, aligned, hold_back_ms, early):
    ticks = json.loads((FOLDER / "qwen3_ticks.json").read_text(encoding="utf-8"))["ticks"]
    models, found, closed, begin = Ticks(ticks), set(), [], 0
    config = SpeechConfig(commit=rule, hold_back_ms=hold_back_ms)
    tail = LiveTail(models, models if aligned else None, "en", config)
    for tick in ticks:
        end = round(tick["tick_s"] * SAMPLE_RATE)
        update = tail.push(clock_audio(begin, end))
        closed += [word.text for sentence in update.sentences for word in sentence]
        reached = ticks[-1]["words"][: len(closed) + update.live.accessible]
        found |= {i for i, word in enumerate(reached) if word["end"] > tick["tick_s"]}
        begin = end
    assert closed  # not all at the end
    closed += [word.text for sentence in tail.finish().sentences for word in sentence]
    assert closed == ticks[-1]["text"].split()
    assert len(found) == early
