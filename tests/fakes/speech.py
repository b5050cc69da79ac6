"""Audio whose samples encode their position, and speech models that tests can compute by hand."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from alignatt_agent.config.speech import SpeechConfig
from alignatt_agent.types import SAMPLE_RATE, FloatArray, Transcript, Word
from alignatt_agent.types.engines import AlignedItem, Answer

Settings = partial(SpeechConfig, min_start_s=0.0)

BASE = 0.5
"""Audio samples encode their position: ``BASE + n * 2**-24`` is exact in float32."""

QUIET = 2.0**-6
"""Factor of samples in a pause."""


def clock_audio(begin: int, end: int) -> FloatArray:
    assert end < 2**23
    return (BASE + np.arange(begin, end) * 2.0**-24).astype(np.float32)


def heard_span(audio: FloatArray) -> tuple[float, float]:
    """Absolute seconds that a piece of clock audio covers."""
    ends = (float(x) if x >= BASE else float(x) / QUIET for x in (audio[0], audio[-1]))
    begin, last = (round((x - BASE) * 2**24) for x in ends)
    assert last - begin == audio.size - 1
    return begin / SAMPLE_RATE, (last + 1) / SAMPLE_RATE


@dataclass
class Script:
    """Recognizes a timed script; words that end near the end of the audio may be wrong.

    Times are in 80 ms bins, tail-relative, without punctuation.
    """

    script: Sequence[Word]
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    error_rate: float = 0.0
    spans: list[tuple[float, float]] = field(default_factory=list)
    last: list[tuple[str, Word]] = field(default_factory=list)

    def transcribe(self, audio, language, context="", expected=""):
        begin, end = heard_span(audio)
        self.spans.append((begin, end))
        heard = [w for w in self.script if (w.start + w.end) / 2 >= begin and w.start + 0.05 < end]
        self.last = []
        for word, text in ((word, word.text) for word in heard):
            if word.end > end - 0.6 and self.rng.random() < self.error_rate:
                # Never the same error twice: two hypotheses that agree are right here.
                text = self.rng.choice(["uh{}", "wrong{}.", "x{}" + text]).format(len(self.spans))
            self.last.append((text, word))
        return Transcript(" ".join(text for text, _ in self.last))

    def align(self, audio, text, language):
        begin, _ = heard_span(audio)
        items = []
        for spoken, word in self.last:
            times = (round((t - begin) / 0.08) * 0.08 for t in (word.start, word.end))
            items.append(AlignedItem(spoken.strip(".,?!"), *(max(0.0, time) for time in times)))
        return items


class SpeechModel:
    """Returns its answers in order, the last one repeatedly; records its prompts."""

    name = "asr model fake"
    bin_ms = 80.0

    def __init__(self, processor, *answers, ended=True):
        self.processor, self.tokenizer = processor, getattr(processor, "tokenizer", processor)
        self.answers, self.ended = list(answers), ended
        self.asked = []

    def _answer(self):
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def generate(self, token_ids, audio, max_tokens, expected=()):
        self.asked.append((self.tokenizer.decode(token_ids), len(audio), max_tokens))
        self.expected = self.tokenizer.decode(expected)
        ids = self.tokenizer.encode(self._answer(), add_special_tokens=False)
        return Answer(tuple(ids), self.ended, 3, 2)

    def bins(self, token_ids, audio):
        self.asked.append((self.tokenizer.decode(token_ids), len(audio)))
        return self._answer()
