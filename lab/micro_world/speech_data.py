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
        """The spoken sentences of each speaker."""
        rng = random.Random(self._seed)
        pairs = islice(sentences(self._seed, linked=True), self._pool)
        voices, synthesizer = [], Synthesizer()
        bar = tqdm(total=self._pool, desc="synthesis", mininterval=5)
        # All speakers are drawn before the first one speaks, which draws pauses.
        for speaker in [Voice.draw(rng) for _ in range(max(1, self._pool // POOLED))]:
            spoken = []
            for pair in islice(pairs, POOLED):
                utterance = speak(pair.words, speaker, rng, synthesizer)
                spoken.append(Spoken.of(utterance))
            voices.append(spoken)
            bar.update(POOLED)
        return voices

    def _drawn(self, seed: str, rng: random.Random, count: int) -> list[Clip]:
        return [self._draw(rng) for _ in range(count)]

    def _length(self, example: Clip) -> int:
        return len(example.audio)

    def _draw(self, rng: random.Random) -> Clip:
        audio, words, end = self._join(rng)
        if rng.random() < 0.02:
            # Digital silence, in which nothing is said.
            audio, words = audio * 0, []
        if rng.random() < SOUNDS:
            audio, words = beside_sound(audio, words, rng)
            end = len(audio) / SAMPLE_RATE
        names: list[str] = []
        if rng.random() < 0.5:
            names = drawn_names(rng, [word.text for word in words])
        if rng.random() < 0.65:
            stop = rng.uniform(0.5, end)
            audio = audio[: int(stop * SAMPLE_RATE)]
        loudness = 10 ** rng.uniform(-0.35, 0.15)
        noise = 10 ** rng.uniform(*NOISE_LEVELS)
        audio = noisy(audio * np.float32(loudness), noise, rng.getrandbits(32))
        transcript = cut(words, len(audio) / SAMPLE_RATE)
        return Clip(audio, transcript, "\n".join(names))

    def _join(self, rng: random.Random) -> tuple[FloatArray, list[Word], float]:
        """Return sentences of a speaker with gaps, their words, and the duration in seconds."""
        spoken = rng.choice(self._voices)
        lead = rng.choice([0.0, 0.05, 0.3, 0.8]) * rng.random()
        pieces: list[FloatArray] = [silence(lead)]
        words: list[Word] = []
        now = lead
        sentence_counts = range(1, len(self._lengths) + 1)
        sentence_count = rng.choices(sentence_counts, self._lengths)[0]
        for _ in range(sentence_count):
            sentence = rng.choice(spoken)
            seconds = len(sentence.samples) / SAMPLE_RATE
            if now + seconds > self._max_seconds and words:
                break
            words += later(sentence.words, now)
            gap = rng.uniform(0.35, 0.9)
            samples = sentence.samples.astype(np.float32) / np.float32(PCM)
            pieces += [samples, silence(gap)]
            now += seconds + gap
        return np.concatenate(pieces), words, now


class Spoken(NamedTuple):
    """A sentence in the pool; 16-bit samples halve its memory."""

    samples: NDArray[np.int16]
    words: tuple[Word, ...]

    @classmethod
    def of(cls, utterance: Utterance) -> Spoken:
        """Convert the samples."""
        samples = np.clip(utterance.audio, -1, 1) * PCM
        return cls(samples.astype(np.int16), utterance.words)


def beside_sound(
    audio: FloatArray, words: list[Word], rng: random.Random
) -> tuple[FloatArray, list[Word]]:
    """Put sound before or after speech, or replace speech with sound."""
    sound_audio = sound(rng, rng.uniform(0.5, 8.0))
    place = rng.choice(("alone", "before", "behind"))
    if place == "alone":
        return sound_audio, []
    if place == "behind":
        return np.concatenate([audio, sound_audio]), words
    seconds = len(sound_audio) / SAMPLE_RATE
    return np.concatenate([sound_audio, audio]), later(words, seconds)


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
    heard = list(takewhile(lambda word: end >= _time_in(word, HEARD), words))
    if heard and end < heard[-1].end + MARK_EVIDENCE:
        last = heard[-1]
        text = last.text.rstrip(".,")
        if end >= _time_in(last, CLOSED):
            text += "."
        heard[-1] = Word(text, last.start, last.end)
    transcript = []
    for word in heard:
        if end >= word.end + ENDING_EVIDENCE:
            transcript.append(word)
        else:
            transcript.append(_bare(word))
    return tuple(transcript)


def _time_in(word: Word, share: float) -> float:
    """Return the time in seconds when a share of a word is over."""
    return word.start + share * (word.end - word.start)


def _bare(verb: Word) -> Word:
    """Return a verb without its ending; other words do not change."""
    text = verb.text.rstrip(".,")
    mark = verb.text.removeprefix(text)
    return Word(VERBS.get(text, text) + mark, verb.start, verb.end)


def features(clips: list[Clip]) -> tuple[dict[str, torch.Tensor], list[int]]:
    """Return mel features ``[batch, mels, frames]`` with their mask, and positions per clip."""
    clip_mels, clip_masks = [], []
    for clip in clips:
        with torch.autocast("cpu", enabled=False):  # NumPy has no bfloat16
            extracted = _extractor()(
                clip.audio,
                sampling_rate=SAMPLE_RATE,
                padding="longest",
                return_attention_mask=True,
            )
        clip_mels.append(extracted["input_features"][0].T)
        clip_masks.append(extracted["attention_mask"][0])
    mels = pad_sequence(clip_mels, batch_first=True)
    mask = pad_sequence(clip_masks, batch_first=True)
    frame_counts = mask.sum(1).tolist()
    counts = [_get_feat_extract_output_lengths(frames) for frames in frame_counts]
    return {"input_features": mels.transpose(1, 2), "input_features_mask": mask}, counts


@cache
def _extractor() -> Any:
    return Qwen3ASRFeatureExtractor()


def position_time(index: int) -> float:
    """Return the middle of encoder output ``index`` in seconds."""
    second, position = divmod(index, TOKENS_PER_CHUNK)
    return second + position * 0.08 + 0.04


def position_span(word: Word, count: int) -> list[int]:
    """Return the encoder outputs in ``word``, at least one if there is any."""
    inside = [i for i in range(count) if word.start <= position_time(i) <= word.end]
    if not inside and count:
        # A short word may lie between two outputs.
        middle = (word.start + word.end) / 2
        inside = [min(range(count), key=lambda i: abs(position_time(i) - middle))]
    return inside


def silence(seconds: float) -> FloatArray:
    """Return digital silence, ``[samples]``."""
    return np.zeros(int(seconds * SAMPLE_RATE), np.float32)
