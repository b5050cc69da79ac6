"""Training audio of the two speech models: sentences are joined and cut like live tails."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from itertools import islice, takewhile
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm
from transformers.models.qwen3_asr.feature_extraction_qwen3_asr import Qwen3ASRFeatureExtractor
from transformers.models.qwen3_asr.modeling_qwen3_asr import _get_feat_extract_output_lengths

from alignatt_agent.types import SAMPLE_RATE, FloatArray, Word
from lab.micro_world.corpus import sentences
from lab.micro_world.lexicon import VERBS, drawn_names
from lab.micro_world.sounds import sound
from lab.micro_world.speech import Synthesizer, Utterance, Voice, speak
from lab.micro_world.training import Maker

TOKENS_PER_CHUNK = 13
"""The encoder turns each second into 13 positions, 80 ms apart."""
MARK_EVIDENCE = 0.25
"""Seconds of audio after a word until its true punctuation is part of the transcript."""
HEARD, CLOSED = 0.4, 0.5
"""Share of a word that must be audible for the recognizer to guess it, and to close it with a
period, as the real model does on 93 % of cuts inside a sentence."""
ENDING_EVIDENCE = 0.6
"""Seconds of audio after a verb until its ending is heard: real recognizers also revise finished
words.
"""
NOISE_LEVELS = (-4.3, -1.7)
"""Range of the noise in training, as powers of ten."""
PCM = 32767
SOUNDS = 0.15
"""Share of clips with music, noise or other sounds, a third each alone, before and after speech.
The real recognizer transcribes none of it."""
POOLED = 60
"""Number of sentences per speaker in the pool."""


class Clip(NamedTuple):
    """A live tail and its expected transcript; ``context`` has one name or term per line."""

    audio: FloatArray
    words: tuple[Word, ...]
    context: str = ""


class ClipMaker(Maker[Clip]):
    """Draws clips from a pool of spoken training sentences.

    Args:
        pool: number of sentences to synthesize when the first batch is drawn.
        seed: seed of sentences, voices and cuts.
        max_seconds: maximum length of a clip with more than one sentence.
        lengths: weights of clips of one, two, ... sentences.
    """

    def __init__(
        self,
        pool: int,
        seed: int,
        max_seconds: float = 14.0,
        lengths: Sequence[float] = (0.5, 0.37, 0.13),
    ) -> None:
        super().__init__(seed)
        self._pool, self._max_seconds, self._lengths = pool, max_seconds, lengths

    @cached_property
    def _voices(self) -> list[list[Spoken]]:
        rng = random.Random(self._seed)
        source = islice(sentences(self._seed, linked=True), self._pool)
        voices, synthesizer = [], Synthesizer()
        bar = tqdm(total=self._pool, desc="synthesis", mininterval=5)
        for speaker in [Voice.draw(rng) for _ in range(max(1, self._pool // POOLED))]:
            drawn = islice(source, POOLED)
            voices.append([Spoken.of(speak(p.words, speaker, rng, synthesizer)) for p in drawn])
            bar.update(POOLED)
        return voices

    def _drawn(self, seed: str, rng: random.Random, count: int) -> list[Clip]:
        return [self._draw(rng) for _ in range(count)]

    def _length(self, example: Clip) -> int:
        return len(example.audio)

    def _draw(self, rng: random.Random) -> Clip:
        spoken = rng.choice(self._voices)
        lead = rng.choice([0.0, 0.05, 0.3, 0.8]) * rng.random()
        pieces: list[FloatArray] = [_silence(lead)]
        words: list[Word] = []
        now = lead
        for _ in range(rng.choices(range(1, len(self._lengths) + 1), self._lengths)[0]):
            said = rng.choice(spoken)
            if now + len(said.samples) / SAMPLE_RATE > self._max_seconds and words:
                break
            words += later(said.words, now)
            gap = rng.uniform(0.35, 0.9)
            pieces += [said.samples.astype(np.float32) / np.float32(PCM), _silence(gap)]
            now += len(said.samples) / SAMPLE_RATE + gap
        audio = np.concatenate(pieces)
        if rng.random() < 0.02:
            audio, words = audio * 0, []
        if rng.random() < SOUNDS:
            audio, words = beside_sound(audio, words, rng)
            now = len(audio) / SAMPLE_RATE
        names = drawn_names(rng, [w.text for w in words]) if rng.random() < 0.5 else []
        if rng.random() < 0.65:
            audio = audio[: int(rng.uniform(0.5, now) * SAMPLE_RATE)]
        audio = audio * np.float32(10 ** rng.uniform(-0.35, 0.15))
        audio = noisy(audio, 10 ** rng.uniform(*NOISE_LEVELS), rng.getrandbits(32))
        return Clip(audio, cut(words, len(audio) / SAMPLE_RATE), "\n".join(names))


class Spoken(NamedTuple):
    """A sentence in the pool; 16-bit samples halve its memory."""

    samples: NDArray[np.int16]
    words: tuple[Word, ...]

    @classmethod
    def of(cls, said: Utterance) -> Spoken:
        """Convert the samples."""
        return cls((np.clip(said.audio, -1, 1) * PCM).astype(np.int16), said.words)


def beside_sound(
    audio: FloatArray, words: list[Word], rng: random.Random
) -> tuple[FloatArray, list[Word]]:
    """Put sound before or after speech, or replace speech with sound."""
    other = sound(rng, rng.uniform(0.5, 8.0))
    place = rng.choice(("alone", "before", "behind"))
    if place == "alone":
        return other, []
    if place == "behind":
        return np.concatenate([audio, other]), words
    return np.concatenate([other, audio]), later(words, len(other) / SAMPLE_RATE)


def later(words: Iterable[Word], seconds: float) -> list[Word]:
    """Return words with later times."""
    return [Word(word.text, word.start + seconds, word.end + seconds) for word in words]


def noisy(audio: FloatArray, level: float, seed: int) -> FloatArray:
    """Add white noise with standard deviation ``level``, full scale being 1."""
    noise = np.random.default_rng(seed).standard_normal(len(audio), np.float32)
    return np.clip(audio + np.float32(level) * noise, -1, 1)


def cut(words: Sequence[Word], end: float) -> tuple[Word, ...]:
    """Return the transcript of ``words`` when the audio stops at ``end`` seconds.

    It follows the recorded error model of the real recognizer, whose errors depend on the audio
    alone: the last word is written before it ends, with a period; endings of verbs appear later.
    """
    heard = list(takewhile(lambda w: w.start + HEARD * (w.end - w.start) <= end, words))
    if heard and end < heard[-1].end + MARK_EVIDENCE:
        *before, last = heard
        closes = end >= last.start + CLOSED * (last.end - last.start)
        text = last.text.rstrip(".,") + "." * closes
        heard = [*before, Word(text, last.start, last.end)]
    return tuple(word if end >= word.end + ENDING_EVIDENCE else _bare(word) for word in heard)


def _bare(verb: Word) -> Word:
    """Return a verb without its ending; other words do not change."""
    text = verb.text.rstrip(".,")
    mark = verb.text.removeprefix(text)
    return Word(VERBS.get(text, text) + mark, verb.start, verb.end)


def features(clips: list[Clip]) -> tuple[dict[str, torch.Tensor], list[int]]:
    """Return mel features ``[batch, mels, frames]`` with their mask, and positions per clip."""
    asked = {"sampling_rate": SAMPLE_RATE, "padding": "longest", "return_attention_mask": True}
    with torch.autocast("cpu", enabled=False):  # NumPy has no bfloat16
        found = [_extractor()(clip.audio, **asked) for clip in clips]
    mels = pad_sequence([item["input_features"][0].T for item in found], batch_first=True)
    mask = pad_sequence([item["attention_mask"][0] for item in found], batch_first=True)
    heard = {"input_features": mels.transpose(1, 2), "input_features_mask": mask}
    return heard, [_get_feat_extract_output_lengths(frames) for frames in mask.sum(1).tolist()]


@cache
def _extractor() -> Any:
    return Qwen3ASRFeatureExtractor()


def position_time(index: int) -> float:
    """Return the middle of encoder output ``index`` in seconds."""
    return index // TOKENS_PER_CHUNK + (index % TOKENS_PER_CHUNK) * 0.08 + 0.04


def position_span(word: Word, count: int) -> list[int]:
    """Return the encoder outputs in ``word``, at least one if there is any."""
    inside = [i for i in range(count) if word.start <= position_time(i) <= word.end]
    if not inside and count:
        middle = (word.start + word.end) / 2
        inside = [min(range(count), key=lambda i: abs(position_time(i) - middle))]
    return inside


def _silence(seconds: float) -> FloatArray:
    return np.zeros(int(seconds * SAMPLE_RATE), np.float32)
