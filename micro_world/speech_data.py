"""Training audio for the two speech models: sentences strung together and cut as live tails are."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from tqdm import tqdm
from transformers.models.qwen3_asr.feature_extraction_qwen3_asr import Qwen3ASRFeatureExtractor

from alignatt_agent.types import SAMPLE_RATE, FloatArray, Word
from micro_world.corpus import sentences
from micro_world.speech import Utterance, Voice, speak

FRAMES_PER_CHUNK, TOKENS_PER_CHUNK = 100, 13
"""The encoder turns each second (100 mel frames) into 13 positions, 80 ms apart."""
MARK_EVIDENCE = 0.25
"""Seconds of audio needed after a word before its punctuation is part of the transcript."""
HEARD = 0.7
"""Share of a word that must have been heard for it to be part of the transcript."""


@dataclass(frozen=True, slots=True)
class Clip:
    """A live tail: audio and the words that a perfect recogniser would write."""

    audio: FloatArray
    words: tuple[Word, ...]


class ClipMaker:
    """Draws clips from a pool of spoken training sentences; deterministic for a seed.

    Args:
        pool: number of sentences to synthesise.
        seed: seed of sentences, voices and cuts.
        max_seconds: a clip gets no further sentence that would end later.
        lengths: weights of clips of one, two, ... sentences.
    """

    def __init__(
        self,
        pool: int,
        seed: int,
        max_seconds: float = 14.0,
        lengths: Sequence[float] = (0.5, 0.37, 0.13),
    ) -> None:
        self._max_seconds, self._lengths = max_seconds, lengths
        rng = random.Random(seed)
        source = islice(sentences(seed), pool)
        self._voices: list[list[Utterance]] = []
        speakers = [Voice.draw(rng) for _ in range(max(1, pool // 60))]
        bar = tqdm(total=pool, desc="synthesis", mininterval=5)
        for speaker in speakers:
            spoken = [speak(pair.words, speaker, rng) for pair in islice(source, 60)]
            self._voices.append(spoken)
            bar.update(len(spoken))
        self._rng = rng
        self._noise = np.random.default_rng(seed)

    def __iter__(self) -> Iterator[Clip]:
        while True:
            yield self.draw()

    def draw(self) -> Clip:
        """Return the next clip."""
        rng = self._rng
        spoken = rng.choice(self._voices)
        lead = rng.choice([0.0, 0.05, 0.3, 0.8]) * rng.random()
        pieces: list[FloatArray] = [_silence(lead)]
        words: list[Word] = []
        now = lead
        for _ in range(rng.choices(range(1, len(self._lengths) + 1), self._lengths)[0]):
            utterance = rng.choice(spoken)
            if now + len(utterance.audio) / SAMPLE_RATE > self._max_seconds and words:
                break
            words += [Word(w.text, w.start + now, w.end + now) for w in utterance.words]
            gap = rng.uniform(0.35, 0.9)
            pieces += [utterance.audio, _silence(gap)]
            now += len(utterance.audio) / SAMPLE_RATE + gap
        audio = np.concatenate(pieces)
        if rng.random() < 0.02:
            audio, words = audio * 0, []
        if rng.random() < 0.65:
            audio = audio[: int(rng.uniform(0.5, now) * SAMPLE_RATE)]
        audio = audio * np.float32(10 ** rng.uniform(-0.35, 0.15))
        level = 10 ** rng.uniform(-4.3, -2.6)
        noise = self._noise.standard_normal(len(audio)).astype(np.float32) * np.float32(level)
        return Clip(np.clip(audio + noise, -1, 1), cut(words, len(audio) / SAMPLE_RATE))


def batches(clips: Iterator[Clip], size: int, rng: random.Random) -> Iterator[list[Clip]]:
    """Yield batches of clips of similar length, which saves padding."""
    while True:
        drawn = sorted(islice(clips, 8 * size), key=lambda clip: len(clip.audio))
        rows = [drawn[i : i + size] for i in range(0, len(drawn), size)]
        rng.shuffle(rows)
        yield from rows


def cut(words: list[Word], end: float) -> tuple[Word, ...]:
    """Return what can be transcribed of ``words`` when the audio stops at ``end`` seconds."""
    heard = []
    for word in words:
        if word.start + HEARD * (word.end - word.start) > end:
            break
        text = word.text if end >= word.end + MARK_EVIDENCE else word.text.rstrip(".,")
        heard.append(Word(text, word.start, word.end))
    return tuple(heard)


def features(
    extractor: Qwen3ASRFeatureExtractor, clips: list[Clip]
) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
    """Return mel features ``[batch, mels, frames]``, their mask and audio positions per clip."""
    mels = []
    for clip in clips:
        samples = clip.audio
        if len(samples) < extractor.min_length:
            samples = np.pad(samples, (0, extractor.min_length - len(samples)))
        mels.append(torch.from_numpy(extractor._torch_extract_fbank_features(samples)))
    lengths = [mel.shape[1] for mel in mels]
    width = -(-max(lengths) // FRAMES_PER_CHUNK) * FRAMES_PER_CHUNK
    out = torch.zeros(len(mels), extractor.feature_size, width)
    mask = torch.zeros(len(mels), width, dtype=torch.long)
    for i, mel in enumerate(mels):
        out[i, :, : lengths[i]] = mel
        mask[i, : lengths[i]] = 1
    return out, mask, [positions(length) for length in lengths]


def positions(frames: int) -> int:
    """Number of encoder outputs for ``frames`` mel frames."""
    left = frames % FRAMES_PER_CHUNK
    for _ in range(3):
        left = (left + 1) // 2
    return frames // FRAMES_PER_CHUNK * TOKENS_PER_CHUNK + left


def position_time(index: int) -> float:
    """Middle of encoder output ``index`` in seconds."""
    return index // TOKENS_PER_CHUNK + (index % TOKENS_PER_CHUNK) * 0.08 + 0.04


def position_span(word: Word, count: int) -> list[int]:
    """Encoder outputs that hear ``word``; at least one when there is any."""
    inside = [i for i in range(count) if word.start <= position_time(i) <= word.end]
    if not inside and count:
        middle = (word.start + word.end) / 2
        inside = [min(range(count), key=lambda i: abs(position_time(i) - middle))]
    return inside


def _silence(seconds: float) -> FloatArray:
    return np.zeros(int(seconds * SAMPLE_RATE), np.float32)
