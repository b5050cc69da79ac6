"""Engines, tokenizers and audio that tests can compute by hand."""

import copy
import json
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from alignatt_agent.calibration.head_scores import hits
from alignatt_agent.config.sections import SpeechConfig
from alignatt_agent.policy import AlignAtt
from alignatt_agent.types import (
    SAMPLE_RATE,
    AttentionRows,
    Draft,
    EngineError,
    FloatArray,
    Prompt,
    Transcript,
    Word,
)
from alignatt_agent.types.engines import AlignedItem, Answer, Readout

READOUT = Readout(heads=((0, 0), (1, 1)), row="predicting")
Settings = partial(SpeechConfig, min_start_s=0.0)


def before_calls(engine, method, action):
    """Let ``action()`` precede every call of a method of an engine; returns the engine."""
    inner = getattr(engine, method)

    def called(*given, **named):
        action()
        return inner(*given, **named)

    setattr(engine, method, called)
    return engine


def recorded(name: str):
    """Return a recording of real models, in JSON; skip the test where it is not at hand."""
    file = Path(os.environ.get("ALIGNATT_FIXTURES", "none"), name)
    if not file.is_file():
        pytest.skip(f"not run: ALIGNATT_FIXTURES names no folder with {name}")
    return json.loads(file.read_text(encoding="utf-8"))


def make_rows(source: Sequence[Sequence[Sequence[float]]] | np.ndarray) -> AttentionRows:
    """Build rows from ``[draft, heads, source]``; what is missing to 1 counts as prompt."""
    array = np.asarray(source, dtype=np.float32)
    rest = (1 - array.sum(axis=2)).clip(0, 1)
    return AttentionRows(array, rest, np.zeros_like(rest))


def make_words(text: str) -> tuple[Word, ...]:
    """Words of 0.4 s, one every half second."""
    return tuple(Word(word, i / 2, i / 2 + 0.4) for i, word in enumerate(text.split()))


@dataclass
class PieceTokenizer:
    """Decodes by joining the pieces of an open vocabulary."""

    pieces: list[str] = field(default_factory=list)

    def ids(self, *pieces: str) -> tuple[int, ...]:
        for piece in pieces:
            if piece not in self.pieces:
                self.pieces.append(piece)
        return tuple(self.pieces.index(piece) for piece in pieces)

    def decode(self, ids: list[int], **_: object) -> str:
        return "".join(self.pieces[i] for i in ids)


class ByteTokenizer:
    """One token per UTF-8 byte; broken characters show as U+FFFD."""

    def decode(self, ids: list[int], **_: object) -> str:
        return bytes(ids).decode("utf-8", errors="replace")


def with_template(tokenizer, template: str):
    """Return a copy of a tokenizer with another chat template."""
    changed = copy.deepcopy(tokenizer)
    changed.chat_template, changed.name_or_path = template, "some/model"
    return changed


class Prompts:
    """Prompts of 1-3 tokens per word (its length decides); no instruction."""

    def build(self, words, accepted=(), history=()):
        assert words
        assert all(len(word.split()) == 1 for word in words)
        token_word = tuple(i for i, word in enumerate(words) for _ in range(len(word) % 3 + 1))
        source = [sum(map(ord, words[i])) for i in token_word]
        return Prompt((*history, 7, 7, *source, *accepted), len(history) + 2, token_word)

    def closed(self, words, translation, first):
        return self.build(words, translation).token_ids


@dataclass
class ScriptedEngine:
    """Returns prepared drafts in order and records what it was asked."""

    drafts: list[Draft | Exception]
    calls: list[tuple[Prompt, int, Readout | None]] = field(default_factory=list)
    expected: list[tuple[int, ...]] = field(default_factory=list)

    def draft(self, prompt, max_tokens, readout=None, gate=None, resumed=None, expected=()):
        self.calls.append((prompt, max_tokens, readout))
        self.expected.append(tuple(expected))
        draft = self.drafts.pop(0)
        if isinstance(draft, Exception):
            raise draft
        return draft


@dataclass
class RandomEngine:
    """A deterministic function of the prompt: random ids, random rows, random failures."""

    vocabulary: int
    seed: int
    failure_rate: float = 0.0
    calls: int = 0

    def draft(self, prompt, max_tokens, readout=None, gate=None, resumed=None, expected=()):
        self.calls += 1
        if random.Random(f"{self.seed} {self.calls}").random() < self.failure_rate:
            raise EngineError("the fake engine failed")
        rng = random.Random(f"{self.seed} {prompt.token_ids}")
        ids = tuple(rng.randrange(self.vocabulary) for _ in range(rng.randint(0, max_tokens)))
        rows = None
        if readout is not None:
            weights = np.random.default_rng(rng.randrange(2**32)).dirichlet(
                np.full(len(prompt.token_word) + 1, 0.2), size=(len(ids), len(readout.heads))
            )
            rows = make_rows(weights[:, :, :-1])
        return Draft(ids, len(ids) < max_tokens, rows)


@dataclass
class StoppingEngine:
    """Drafts like another engine, and stops where the gate does."""

    inner: RandomEngine
    stopped: int = 0
    resumed: int = 0

    def draft(self, prompt, max_tokens, readout=None, gate=None, resumed=None, expected=()):
        whole = self.inner.draft(prompt, max_tokens, readout, expected=expected)
        begun = 0
        if resumed is not None:
            self.resumed, begun = self.resumed + 1, len(resumed.token_ids)
            assert (resumed.cut, resumed.token_ids) == (True, whole.token_ids[:begun])
        if gate is None or whole.rows is None:
            return whole
        scan, rows = AlignAtt(**gate.settings).scan(gate.frontier), whole.rows
        stops = (count for count, row in enumerate(rows.source, 1) if scan.judge(row) is not None)
        count = next(stops, None)
        if count is None:
            return whole
        assert count > begun
        self.stopped += 1
        seen = AttentionRows(rows.source[:count], rows.prompt[:count], rows.suffix[:count])
        steps = max(1, count - len(expected))
        return Draft(whole.token_ids[:count], False, seen, cut=True, steps=steps)


@dataclass
class MonotoneEngine:
    """Translates word by word into upper case, two pieces per word, looking at each word.

    The whole translation is a function of the source; a draft goes on where the prefix ends.
    """

    tokenizer: PieceTokenizer
    prompts: Prompts = field(default_factory=Prompts)
    calls: int = 0
    failing: set[int] = field(default_factory=set)
    words: dict[tuple[int, ...], list[str]] = field(default_factory=dict)

    def build(self, words, accepted=(), history=()):
        """Build a prompt and remember its words, so that ``draft`` can read them."""
        prompt = self.prompts.build(words, accepted)
        self.words[prompt.token_ids] = list(words)
        return prompt

    def draft(self, prompt, max_tokens, readout=None, gate=None, resumed=None, expected=()):
        self.calls += 1
        if self.calls in self.failing:
            raise EngineError("the fake engine failed")
        target, peaks = [], []
        for index, word in enumerate(self.words[prompt.token_ids]):
            for piece in (" " + word[:2].upper(), word[2:].upper()):
                if piece:
                    target += self.tokenizer.ids(piece)
                    peaks.append(prompt.token_word.index(index))
        done = len(prompt.token_ids) - prompt.source_end
        ids, peaks = target[done:][:max_tokens], peaks[done:][:max_tokens]
        rows = None
        if readout is not None:
            source = np.zeros((len(ids), len(readout.heads), len(prompt.token_word)))
            source[np.arange(len(ids)), :, peaks] = 0.5
            rows = make_rows(source)
        return Draft(tuple(ids), len(target) - done <= max_tokens, rows)


BASE = 0.5
"""Audio samples carry their own position: ``BASE + n * 2**-24`` is exact in float32."""

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
    """Reveals a timed script; words that end near the end of the audio may come out wrong.

    Times are in 80 ms bins, tail-relative, without punctuation.
    """

    script: Sequence[Word]
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    error_rate: float = 0.0
    failing: set[int] = field(default_factory=set)
    spans: list[tuple[float, float]] = field(default_factory=list)
    last: list[tuple[str, Word]] = field(default_factory=list)

    def transcribe(self, audio, language, context="", expected=""):
        begin, end = heard_span(audio)
        self.spans.append((begin, end))
        if len(self.spans) in self.failing:
            raise EngineError("the fake recognizer failed")
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
    """Gives its answers one after the other, the last again and again; remembers its prompts."""

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


def averaged_score(reader, pairs, row, heads) -> float:
    """Translation Score of the mean row of ``heads``, as the policy reads it."""
    hit = tokens = 0
    for pair in pairs:
        rows = reader.rows(pair.prompt, pair.target_ids, Readout(tuple(heads), row)).source
        found = hits(rows.mean(axis=1), pair)
        hit += int(found.sum())
        tokens += found.size
    return hit / tokens
