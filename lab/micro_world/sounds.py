"""Generate sounds without speech: rushing, humming, music and knocks."""

import math
import random

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from alignatt_agent.types import SAMPLE_RATE, FloatArray

Waves = NDArray[np.float64]


def sound(rng: random.Random, seconds: float) -> FloatArray:
    """Return one kind of sound, with a peak between 0.02 and 0.6 of full scale."""
    draw = np.random.default_rng(rng.getrandbits(32))
    kind = rng.choice((_rush, _hum, _music, _knocks))
    samples = kind(draw, round(seconds * SAMPLE_RATE))
    peak = 10 ** rng.uniform(-1.7, -0.22)
    # The initial value avoids a division by zero.
    loudest = float(np.abs(samples).max(initial=1e-6))
    samples = samples * (peak / loudest)
    return samples.astype(np.float32)


def _rush(draw: Generator, count: int) -> Waves:
    """Noise with falling or flat spectrum."""
    spectrum = np.fft.rfft(draw.standard_normal(count))
    frequencies = np.maximum(np.arange(len(spectrum)), 1.0)
    falling = frequencies ** -draw.choice([0.0, 0.5, 1.0])
    rush: Waves = np.fft.irfft(spectrum * falling, count)
    return rush


def _hum(draw: Generator, count: int) -> Waves:
    """A steady tone with overtones that swells and fades."""
    time = np.arange(count) / SAMPLE_RATE
    base = draw.uniform(45, 400)
    tones = []
    for overtone in range(1, 9):
        loudness = draw.uniform(0, 1) / overtone
        phase = draw.random()
        tones.append(loudness * np.sin(2 * np.pi * (overtone * base * time + phase)))
    swell = 1 + 0.6 * np.sin(2 * np.pi * draw.uniform(0.1, 2) * time)
    swelling: Waves = np.sum(tones, axis=0) * swell
    return swelling


def _music(draw: Generator, count: int) -> Waves:
    """Chords of a scale, plucked or held, on a steady beat."""
    beat = int(SAMPLE_RATE * draw.uniform(0.15, 1.0))
    time = np.arange(beat) / SAMPLE_RATE
    fading = np.exp(-draw.uniform(0, 6) * time)
    key = draw.uniform(90, 500)
    minor_scale = np.array([0, 2, 3, 5, 7, 8, 10, 12, 14, 15])  # in semitones
    overtones = int(draw.integers(2, 9))
    chords = []
    for _ in range(math.ceil(count / beat)):
        note_count = int(draw.integers(1, 5))
        semitones = draw.choice(minor_scale, note_count, replace=False)
        chord = np.zeros(beat)
        for note in key * 2 ** (semitones / 12):
            for overtone in range(1, overtones):
                chord += np.sin(2 * np.pi * overtone * note * time) / overtone
        chords.append(chord * fading)
    played: Waves = np.concatenate(chords)
    return played[:count]


def _knocks(draw: Generator, count: int) -> Waves:
    """Short dull blows at random times, like steps, doors or clapping."""
    samples = np.zeros(count)
    for _ in range(1 + count * int(draw.integers(1, 12)) // SAMPLE_RATE):
        length = int(SAMPLE_RATE * draw.uniform(0.005, 0.08))
        begin = int(draw.integers(0, max(1, count - length)))
        fading = np.exp(-6 * np.arange(length) / length)
        blow = draw.standard_normal(length) * fading
        samples[begin : begin + length] += blow[: count - begin] * draw.uniform(0.3, 1)
    return samples
