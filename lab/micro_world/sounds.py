"""Generate sounds without speech: rushing, humming, music and knocks."""

import random

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from alignatt_agent.types import SAMPLE_RATE, FloatArray

Waves = NDArray[np.float64]


def sound(rng: random.Random, seconds: float) -> FloatArray:
    """Return one kind of sound, with a peak between 0.02 and 0.6 of full scale."""
    draw = np.random.default_rng(rng.getrandbits(32))
    samples: Waves = rng.choice((_rush, _hum, _music, _knocks))(draw, round(seconds * SAMPLE_RATE))
    loudest = float(np.abs(samples).max(initial=1e-6))
    samples = samples * (10 ** rng.uniform(-1.7, -0.22) / loudest)
    return samples.astype(np.float32)


def _rush(draw: Generator, count: int) -> Waves:
    """Noise with falling or flat spectrum."""
    spectrum = np.fft.rfft(draw.standard_normal(count))
    falling = np.maximum(np.arange(len(spectrum)), 1.0) ** -draw.choice([0.0, 0.5, 1.0])
    rush: Waves = np.fft.irfft(spectrum * falling, count)
    return rush


def _hum(draw: Generator, count: int) -> Waves:
    """A steady tone with overtones that swells and fades."""
    time = np.arange(count) / SAMPLE_RATE
    base = draw.uniform(45, 400)
    tones: Waves = np.sum(
        [
            draw.uniform(0, 1) / k * np.sin(2 * np.pi * (k * base * time + draw.random()))
            for k in range(1, 9)
        ],
        axis=0,
    )
    swelling: Waves = tones * (1 + 0.6 * np.sin(2 * np.pi * draw.uniform(0.1, 2) * time))
    return swelling


def _music(draw: Generator, count: int) -> Waves:
    """Chords of a scale, plucked or held, on a steady beat."""
    beat = int(SAMPLE_RATE * draw.uniform(0.15, 1.0))
    time = np.arange(beat) / SAMPLE_RATE
    fading = np.exp(-draw.uniform(0, 6) * time)
    key, scale = draw.uniform(90, 500), np.array([0, 2, 3, 5, 7, 8, 10, 12, 14, 15])
    overtones = int(draw.integers(2, 9))
    chords = []
    for _ in range(-(-count // beat)):
        notes = key * 2 ** (draw.choice(scale, int(draw.integers(1, 5)), replace=False) / 12)
        waves = [
            np.sin(2 * np.pi * k * note * time) / k for note in notes for k in range(1, overtones)
        ]
        chords.append(np.sum([np.zeros(beat), *waves], axis=0) * fading)
    played: Waves = np.concatenate(chords)
    return played[:count]


def _knocks(draw: Generator, count: int) -> Waves:
    """Short dull blows at random times, like steps, doors or clapping."""
    samples = np.zeros(count)
    for _ in range(1 + count * int(draw.integers(1, 12)) // SAMPLE_RATE):
        length = int(SAMPLE_RATE * draw.uniform(0.005, 0.08))
        begin = int(draw.integers(0, max(1, count - length)))
        blow = draw.standard_normal(length) * np.exp(-6 * np.arange(length) / length)
        samples[begin : begin + length] += blow[: count - begin] * draw.uniform(0.3, 1)
    return samples
