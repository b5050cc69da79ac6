"""An error model of a recognizer, and the effect of its errors on commits.

Every word of a talk holds its number, so that lost and doubled words can be counted. The errors are
those of recordings of Qwen3-ASR and its aligner: a period on cut audio, the last word guessed and
revised, a word that goes on timed as if it were over. As with greedy decoding, hypotheses of nearly
the same audio agree on the same error. A rest of a word at the head of the audio is heard as the
word again.
"""

import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np

from alignatt_agent.config.speech import SpeechConfig
from alignatt_agent.speech.live_tail import LiveTail
from alignatt_agent.types import SAMPLE_RATE, FloatArray, Transcript, Word
from alignatt_agent.types.engines import AlignedItem
from tests.fakes.speech import QUIET, clock_audio, heard_span

CHUNKS_MS = (100, 250, 500, 850, 1500)
REST_S = 0.08
"""A shorter rest of a word at the beginning of the audio is not recognized."""
APART_S = 0.13
"""Largest distance of a committed word from its true times."""
SURE_S = 0.12
"""This long after its end, a word is no longer guessed."""


def make_talk(rng: random.Random, sentences: int) -> list[Word]:
    """Return words with true times, and pauses similar to those of recorded talks."""
    talk, time = [], 0.3
    for _ in range(sentences):
        length = rng.randint(3, 16)
        for i in range(length):
            end = time + rng.uniform(0.12, 0.6)
            last = i == length - 1
            # The letter behind the number: a number with a period ends no sentence.
            talk.append(Word(f"w{len(talk)}e" + "." * last, time, end))
            pause = rng.uniform(0.2, 0.5) if rng.random() < 1 / 6 else rng.uniform(0.0, 0.06)
            pause = rng.uniform(1.0, 2.4) if rng.random() < 1 / 400 else pause
            time = end + (min(2.8, rng.expovariate(1 / 0.9)) if last else pause)
    return talk


def sound(talk: Sequence[Word], begin: int, end: int) -> FloatArray:
    """Return samples that tell their time, quieter between words."""
    audio, quiet = clock_audio(begin, end), np.ones(end - begin, dtype=bool)
    for word in talk:
        first, last = (round(time * SAMPLE_RATE) - begin for time in (word.start, word.end))
        quiet[max(0, first) : max(0, last)] = False
    audio[quiet] *= np.float32(QUIET)
    return audio


@dataclass
class ErrorModel:
    """Recognizer and aligner of a talk, with the rates of their errors."""

    talk: Sequence[Word]
    seed: int = 0
    period: float = 0.93  # the last word gets a period that it does not have
    guess: float = 0.5  # a word that is not over comes out wrong
    capital: float = 0.3  # ... as the beginning of a sentence, behind a period that stays
    jitter_s: float = 0.04
    heard: list[Word] = field(default_factory=list)

    def transcribe(self, audio, language, context="", expected=""):
        begin, end = heard_span(audio)
        reached = (word for word in self.talk if (word.start + word.end) / 2 < end)
        self.heard = [word for word in reached if word.end > begin + REST_S]
        return Transcript(" ".join(self._texts(end)))

    def _texts(self, end: float) -> list[str]:
        texts = [word.text for word in self.heard]
        if not texts:
            return texts
        last = self.heard[-1]
        if end < last.end + SURE_S:
            texts[-1] = texts[-1].rstrip(".")
            if self._chance("guess", last) < self.guess:
                texts[-1] += "x"
            begun = len(texts) > 1 and self._chance("capital", last) < self.capital
            if begun and self._false_period(self.heard[-2]):
                texts[-2] += "."
                texts[-1] = texts[-1].capitalize()
        if self._false_period(last):
            texts[-1] += "."
        return texts

    def _false_period(self, word: Word) -> bool:
        return not word.text.endswith(".") and self._chance("period", word) < self.period

    def _chance(self, kind: str, word: Word) -> float:
        return random.Random(f"{self.seed} {kind} {word.text}").random()

    def align(self, audio, text, language):
        begin, end = heard_span(audio)
        items = []
        for said, word in zip(text.split(), self.heard, strict=True):
            shift = (2 * self._chance("jitter", word) - 1) * self.jitter_s
            # A word that is cut off seems to end with the audio, or a bin earlier.
            over = min(word.end + shift, end - 0.04 if word.end > end else end)
            start = min(word.start + shift, over)
            items.append(AlignedItem(said.strip("."), start - begin, over - begin))
        return items


def stream(errors: ErrorModel, chunk_ms: int, aligned: bool = True, **settings) -> SimpleNamespace:
    """Feed a talk to a live tail in chunks.

    Returns numbers of words (``early``: committed before they are over, or before they are
    accessible; ``shifted``: far from their times; ``relied``: accessible before they are over), of
    cuts inside a word, of false ends, the longest open utterance and tail in seconds, and the
    seconds from true ends to commits.
    """
    talk = errors.talk
    config = SpeechConfig(**settings)
    tail = LiveTail(errors, errors if aligned else None, "en", config)
    found = SimpleNamespace(words=len(talk), early=0, shifted=0, cuts=0, false_ends=0, delays=[])
    found.open_s = 0.0
    counts: Counter[int] = Counter()
    total, step = int((talk[-1].end + 2.5) * SAMPLE_RATE), chunk_ms * SAMPLE_RATE // 1000
    relied: set[int] = set()
    open_before = 0
    start = 0.0
    for begin in range(0, total, step):
        update = tail.push(sound(talk, begin, min(begin + step, total)))
        seen = map(_number, update.live.words[: update.live.accessible])
        relied |= {number for number in seen if talk[number].end > tail.now}
        if words := update.live.words:
            found.open_s = max(found.open_s, words[-1].end - words[0].start)
        closed = [word for sentence in update.sentences for word in sentence]
        fresh = [*closed, *update.live.words[: update.settled]][open_before:]
        open_before = update.settled
        for word in fresh:
            number = _number(word)
            counts[number] += 1
            late = aligned and word.end > tail.now - config.hold_back_ms / 1000 + 1e-5
            found.early += talk[number].end > tail.now or late
            found.shifted += abs(word.start - talk[number].start) > APART_S
            found.shifted += abs(word.end - talk[number].end) > APART_S
        head = tail.now - tail.tail_s
        if head > start + 1e-3:  # trimmed
            start = head
            found.cuts += any(word.start + REST_S / 2 < head < word.end - REST_S for word in talk)
        for sentence in update.sentences:
            truth = talk[_number(sentence[-1])]
            if truth.text.endswith("."):
                found.delays.append(tail.now - truth.end)
            else:
                found.false_ends += 1
    for sentence in tail.finish().sentences:
        counts.update([_number(word) for word in sentence][open_before:])
        open_before = 0
    found.relied = len(relied)
    found.lost = sum(counts[i] == 0 for i in range(len(talk)))
    found.doubled = sum(count > 1 for count in counts.values())
    return found


def _number(word: Word) -> int:
    return int(re.search(r"\d+", word.text)[0])


def simulate(seed: int, sentences: int, chunk_ms: int, rates=None, **settings) -> SimpleNamespace:
    """Return the outcome of a talk; ``rates`` are error rates."""
    talk = make_talk(random.Random(seed), sentences)
    return stream(ErrorModel(talk, seed, **(rates or {})), chunk_ms, **settings)
