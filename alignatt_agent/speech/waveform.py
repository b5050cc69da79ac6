"""Process incoming samples: validation, level, loudness and silence."""

import logging
import math
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from alignatt_agent.types import SAMPLE_RATE, FloatArray

LOGGER = logging.getLogger(__name__)

FRAME = SAMPLE_RATE // 50
"""Number of samples in a loudness frame (20 ms)."""

SILENCE_RMS = 0.001
"""Level (-60 dBFS) of the loudest frame below which audio is not transcribed, because recognizers
invent words in silence.
"""
QUIET_RMS = 0.01
"""Level (-40 dBFS) below which an empty hypothesis is accepted immediately."""

NEAR_S = 0.1
"""Typical error of word timestamps, in seconds."""

APART_S = 1.0
"""Longest silence inside a word, in seconds."""

QUIET_SPAN = SAMPLE_RATE // 20
"""Number of samples in a candidate for the quietest place (50 ms)."""

QUIET_ENOUGH = 1.5
"""Spans whose power is at most this multiple of the lowest power count as equally quiet."""

CLICKS = 0.001
"""Fraction of samples (the loudest) that are treated as clicks and do not affect the level."""


class Intake:
    """Validates a client's chunks, and warns once per stream about each kind of damage."""

    def __init__(self) -> None:
        self._warn = cache(partial(LOGGER.warning, "%s (logged once per stream)"))

    def __call__(self, chunk: npt.NDArray[Any]) -> FloatArray:
        """Return ``chunk`` as finite float32: NaN becomes 0, and infinity becomes 1 or -1.

        Raises:
            ValueError: the chunk is not a mono waveform of floating-point samples.
        """
        samples = np.asarray(chunk)
        if samples.ndim != 1 or not np.issubdtype(samples.dtype, np.floating):
            raise ValueError(
                "expected mono audio as floating-point samples of shape [samples] in [-1, 1] at "
                f"{SAMPLE_RATE} Hz, got shape {list(samples.shape)} of {samples.dtype}"
            )
        with np.errstate(over="ignore"):
            sound = np.array(samples, dtype=np.float32)
        if not np.isfinite(sound).all():
            self._warn("the audio contains NaN or infinite samples, which are replaced")
            sound = np.nan_to_num(sound, nan=0.0, posinf=1.0, neginf=-1.0)
        if np.abs(sound).max(initial=0.0) > 1.0:
            self._warn("the audio contains samples outside [-1, 1]; the level is lowered")
        return sound


def in_range(audio: FloatArray) -> FloatArray:
    """Return ``audio``, ``[samples]``, scaled to [-1, 1].

    Qwen divides a whole recording by its peak if the peak exceeds 1. Scaling each chunk separately
    would cause discontinuities, so the whole live tail is scaled. Features are relative to their
    loudest frame in any case. Clicks are clipped, so that one bad sample cannot silence the speech.
    """
    sizes = np.abs(audio)
    if sizes.max(initial=0.0) <= 1.0:
        return audio
    loudest = float(np.quantile(sizes, 1 - CLICKS))
    level = max(1.0, loudest)
    scaled = np.clip(audio / level, -1.0, 1.0)
    return scaled.astype(np.float32)


def loudness(audio: FloatArray) -> float:
    """Return the root mean square of the loudest 20 ms frame of ``audio`` (``[samples]``)."""
    return float(_levels(audio).max(initial=0.0))


def audible(
    audio: FloatArray, spans: Sequence[tuple[float, float]]
) -> list[tuple[float, float] | None]:
    """Return spans of ``audio``, in seconds, with silent edges cut, or ``None`` for silent spans.

    Spans inside sound do not change. Aligners stretch words at the edge of sound into silence, or
    across silence to the next sound. In the second case, the span moves to the longer sound.
    """
    loud = _levels(audio) >= SILENCE_RMS
    near = NEAR_S * SAMPLE_RATE / FRAME
    # A word's timestamps may exceed the audio.
    last_frame = max(0, loud.size - round(near))
    audible_spans: list[tuple[float, float] | None] = []
    for start, end in spans:
        start_frame = start * SAMPLE_RATE / FRAME
        end_frame = end * SAMPLE_RATE / FRAME
        first = min(max(0, math.floor(start_frame - near)), last_frame)
        neighborhood = loud[first : math.ceil(end_frame + near)]
        sound = _longest_sound(neighborhood)
        if sound is None:
            audible_spans.append(None)
            continue
        sound_start, sound_end = sound
        heard = (first + sound_start) * FRAME / SAMPLE_RATE
        silent = (first + sound_end) * FRAME / SAMPLE_RATE
        # A word that ends after the audio is unfinished.
        if end_frame > loud.size:
            silent = end
        audible_start = min(max(start, heard), silent)
        audible_end = max(heard, min(end, silent))
        audible_spans.append((audible_start, audible_end))
    return audible_spans


def _longest_sound(loud: npt.NDArray[np.bool_]) -> tuple[int, int] | None:
    """Return the first and last frame of the longest sound; ``loud`` marks the loud frames.

    Sounds are separated by silence of more than ``APART_S``.
    """
    loud_frames = np.flatnonzero(loud)
    if not loud_frames.size:
        return None
    steps = np.diff(loud_frames)
    pauses = np.flatnonzero(steps > APART_S * SAMPLE_RATE / FRAME) + 1
    sound = max(np.split(loud_frames, pauses), key=len)
    first = int(sound[0])
    last = int(sound[-1])
    # Sound may begin and end anywhere inside a frame, so only a silent frame beside it is silence.
    if first > 0:
        first += 1
    if last + 1 == loud.size:
        last += 1
    return first, last


def _levels(audio: FloatArray) -> npt.NDArray[np.float64]:
    """Return the root mean square of every 20 ms frame; the last two may overlap."""
    frames = np.pad(audio, (0, -audio.size % FRAME)).reshape(-1, FRAME)
    # A few samples padded with zeros would be treated as silence.
    if audio.size >= FRAME:
        frames[-1] = audio[-FRAME:]
    levels: npt.NDArray[np.float64] = np.sqrt(np.square(frames, dtype=np.float64).mean(axis=1))
    return levels


def quietest(audio: FloatArray, begin: int, end: int) -> int:
    """Return the quietest place between two samples of ``audio``; of several, the most central."""
    squares = np.square(audio[begin:end], dtype=np.float64)
    last_start = squares.size - QUIET_SPAN
    if last_start < 0:
        return (begin + end) // 2
    hop = QUIET_SPAN // 5
    # One of the candidates is in the middle.
    starts = np.arange(last_start // 2 % hop, last_start + 1, hop)
    # The power of a span is a difference of two sums.
    sums = np.concatenate([[0.0], np.cumsum(squares)])
    power = sums[starts + QUIET_SPAN] - sums[starts]
    quiet_enough = power <= QUIET_ENOUGH * power.min() + 1e-9
    quiet_starts = starts[quiet_enough]
    distances = np.abs(quiet_starts - last_start / 2)
    most_central = int(quiet_starts[distances.argmin()])
    return begin + QUIET_SPAN // 2 + most_central
