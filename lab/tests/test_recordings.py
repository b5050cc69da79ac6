"""Drafts, hypotheses, word times and pauses of real models and talks (``ALIGNATT_FIXTURES``)."""

import json
import os
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import pytest

from alignatt_agent.config.speech import SpeechConfig
from alignatt_agent.speech import sentence_commits
from alignatt_agent.speech.live_tail import LiveTail
from alignatt_agent.text.sentences import ends_after
from alignatt_agent.types import SAMPLE_RATE, Transcript, Word
from alignatt_agent.types.engines import AlignedItem
from lab.commit_rules import recorded_talks
from tests.fakes.speech import clock_audio, heard_span
from tests.policy.test_rows import source_peaks
from tests.speech.recognizer_errors import ErrorModel, stream


def recorded(name: str):
    """Return a recording of real models, in JSON; skip the test if it is missing."""
    file = Path(os.environ.get("ALIGNATT_FIXTURES", "none"), name)
    if not file.is_file():
        pytest.skip(f"not run: ALIGNATT_FIXTURES names no folder with {name}")
    return json.loads(file.read_text(encoding="utf-8"))


class RecordedModels:
    """Output of the models for a talk at every tick, for the audio that is still in the tail."""

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
    return recorded("qwen3_ticks.json")["ticks"]


@pytest.mark.parametrize("rule", ["agreed", "ended"])
@pytest.mark.parametrize(
    ("aligned", "hold_back_ms", "early"),
    [(True, 0, 5), (True, 250, 0), (False, 0, 0), (False, 250, 0)],
)
def test_every_word_comes_out_once_and_few_before_they_are_over(
    ticks, rule, aligned, hold_back_ms, early
):
    models, found, closed, begin = RecordedModels(ticks), set(), [], 0
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


def test_periods_wherever_the_audio_ends(ticks, monkeypatch):
    words = zip(ticks[-1]["text"].split(), ticks[-1]["words"], strict=True)
    talk = [
        Word(f"w{i}e" + "." * text.endswith("."), word["start"], word["end"])
        for i, (text, word) in enumerate(words)
    ]
    found = {}
    for pause_s in (0.25, sentence_commits.PAUSE_S):
        monkeypatch.setattr(sentence_commits, "PAUSE_S", pause_s)
        for chunk_ms in (100, 250, 500):
            errors = ErrorModel(talk, period=1.0, guess=1.0, capital=1.0)
            result = stream(errors, chunk_ms, commit="ended")
            assert (result.lost, result.doubled, result.cuts) == (0, 0, 0)
            found.setdefault(pause_s, []).append(result.false_ends)
    assert min(found[0.25]) >= 1
    assert max(found[sentence_commits.PAUSE_S]) == 0


@pytest.mark.parametrize("chunk_ms", [250, 500])
def test_one_false_end_in_a_hundred_sentences(chunk_ms):
    """Only pieces with a long pause inside a sentence can have one."""
    talks = recorded_talks(recorded("talk_pauses.json"))
    sentences = sum(word.text.endswith(".") for talk in talks for word in talk)
    false_ends = heard = 0
    for number, talk in enumerate(talks):
        inside = (pair for pair in pairwise(talk) if not pair[0].text.endswith("."))
        if max(after.start - word.end for word, after in inside) >= 0.8:
            found = stream(ErrorModel(talk, number), chunk_ms, hold_back_ms=100)
            assert (found.doubled, found.early, found.cuts) == (0, 0, 0)
            assert found.lost <= 1  # a whole word may be as short as the rest of one
            false_ends, heard = false_ends + found.false_ends, heard + 1
    assert heard >= 10
    assert false_ends <= sentences / 100


def test_sentences_of_ten_languages_end_where_they_were_written():
    wrong = []
    for passage in recorded("sentence_ends.json")["passages"]:
        code, sentences = passage["language"], passage["sentences"]
        words = " ".join(sentences).split()
        ends = {*accumulate(len(text.split()) for text in sentences)}
        found = {k for k in range(1, len(words) + 1) if ends_after(words, k, code, "")}
        wrong += [(words[k - 1], k in ends) for k in found ^ ends]
    assert wrong == [("mevr.", False)]


# ---------------------------------------------------------------------- a recorded draft
@pytest.fixture(scope="module")
def draft():
    """Rows of a draft of a real Gemma-4, ``[draft, heads, source]``, and peaks recorded with it."""
    return recorded("gemma4_draft.json")


READINGS = {
    "mean_first": "peaks_paper_text_inclusive_moments_replicated_edges",
    "per_head": "peaks_recorded_median_per_head_before_mean",
}


@pytest.mark.parametrize("median", READINGS)
def test_peaks_of_a_recorded_draft(draft, median):
    source = np.array(draft["attention_rows"], np.float32)
    assert source_peaks(source, "zscore", 7, median) == draft[READINGS[median]]
    assert source_peaks(source, "none", 1) == draft["peaks_raw_head_mean"]
