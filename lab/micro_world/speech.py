"""Synthesize speech with gold word times, with the C interface of espeak-ng."""

from __future__ import annotations

import ctypes
import random
import shutil
from itertools import count, pairwise
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import espeakng_loader
import numpy as np
from scipy.signal import resample_poly

from alignatt_agent.types import SAMPLE_RATE, FloatArray, Word

VOICES = ("en-us", "en-us+m3", "en-us+m7", "en-us+f2", "en-us+f4")
FILLERS = ("uh", "um")
SYNCHRONOUS, WORD_EVENT, RATE_PARAMETER, PITCH_PARAMETER = 2, 1, 1, 3
SILENCE = 2e-3
"""Amplitude below which a sample is treated as silence at the end of a word."""

_NUMBERS = count()
_COPIES = TemporaryDirectory(ignore_cleanup_errors=True)
"""Copies of the library, which must exist while they are loaded."""


class _Event(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("unique", ctypes.c_int),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", ctypes.c_int * 2),
    ]


_Callback = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event)
)


class Synthesizer:
    """espeak-ng in its initial state.

    The library keeps state between texts, so that the same words sound slightly
    different later. Each synthesizer loads a copy, so that equal calls give equal samples.
    """

    def __init__(self) -> None:
        library = f"{_COPIES.name}/{next(_NUMBERS)}.so"
        shutil.copy(espeakng_loader.get_library_path(), library)
        self._library = ctypes.CDLL(library)
        path = str(espeakng_loader.get_data_path()).encode()
        self.rate: int = self._library.espeak_Initialize(SYNCHRONOUS, 0, path, 0)
        if self.rate <= 0:
            raise RuntimeError(f"espeak-ng did not start with the data in {path.decode()}")
        self._samples: list[Any] = []
        self._words: list[tuple[int, float]] = []
        # The library calls this object later, so the attribute keeps it alive.
        self._callback = _Callback(self._collect)
        self._library.espeak_SetSynthCallback(self._callback)

    def _collect(self, wave: Any, count: int, events: Any) -> int:
        """Store samples and word starts; the library calls it for each piece of audio."""
        if count > 0:
            # The samples are valid only during the call.
            samples = np.ctypeslib.as_array(wave, (count,)).copy()
            self._samples.append(samples)
        number = 0
        while events[number].type != 0:
            event = events[number]
            if event.type == WORD_EVENT:
                # Positions of characters start at 1, and times are in milliseconds.
                self._words.append((event.text_position - 1, event.audio_position / 1000))
            number += 1
        return 0

    def say(
        self, text: str, voice: str, rate: int, pitch: int
    ) -> tuple[FloatArray, list[tuple[int, float]]]:
        """Return samples at ``SAMPLE_RATE`` and (character offset, start in seconds) of words."""
        self._samples, self._words = [], []
        # Pitch flutter is random, seeded by the clock; breath noise comes from the C library.
        self._library.espeak_ng_SetRandSeed(ctypes.c_long(1))
        ctypes.CDLL(None).srand(1)
        if self._library.espeak_SetVoiceByName(voice.encode()) != 0:
            raise ValueError(f"espeak-ng has no voice {voice!r}")
        self._library.espeak_SetParameter(RATE_PARAMETER, rate, 0)
        self._library.espeak_SetParameter(PITCH_PARAMETER, pitch, 0)
        data = text.encode()
        self._library.espeak_Synth(data, len(data) + 1, 0, 1, 0, 1, None, None)
        self._library.espeak_Synchronize()
        wave = np.concatenate(self._samples).astype(np.float32) / 32768
        # espeak-ng speaks at 22,050 Hz.
        return resample_poly(wave, 320, 441).astype(np.float32), self._words


class Voice(NamedTuple):
    """A speaker: espeak-ng voice, words per minute, pitch 0-99."""

    name: str
    rate: int
    pitch: int

    @classmethod
    def draw(cls, rng: random.Random) -> Voice:
        """Draw a random speaker."""
        return cls(rng.choice(VOICES), rng.randint(140, 185), rng.randint(35, 65))


class Utterance(NamedTuple):
    """A spoken sentence: ``[samples]`` and its words with times from its start."""

    audio: FloatArray
    words: tuple[Word, ...]


def speak(
    words: tuple[str, ...], voice: Voice, rng: random.Random, synthesizer: Synthesizer
) -> Utterance:
    """Speak a sentence, sometimes with a pause or a filler before a word.

    Fillers are audible but not words of the transcript.
    """
    audio, starts = _timed(words, voice, synthesizer)
    borders = [int(start * SAMPLE_RATE) for start in starts]
    borders.append(len(audio))
    pieces: list[FloatArray] = [audio[: borders[0]]]
    timed_words: list[Word] = []
    shift = 0.0
    for word, start, (begin, stop) in zip(words, starts, pairwise(borders), strict=True):
        if timed_words and rng.random() < 0.05:
            hesitation = _hesitation(voice, rng, synthesizer)
            pieces.append(hesitation)
            shift += len(hesitation) / SAMPLE_RATE
        piece = audio[begin:stop]
        pieces.append(piece)
        # A word ends with its last audible sample, and a pause may follow.
        length = len(piece)
        loud = np.flatnonzero(np.abs(piece) > SILENCE)
        if len(loud):
            length = int(loud[-1]) + 1
        end = start + shift + length / SAMPLE_RATE
        timed_words.append(Word(word, start + shift, end))
    return Utterance(np.concatenate(pieces), tuple(timed_words))


def _timed(
    words: tuple[str, ...], voice: Voice, synthesizer: Synthesizer
) -> tuple[FloatArray, list[float]]:
    """Return the samples up to the last audible one, and the start of each word in seconds."""
    offsets = []
    text_length = 0
    for word in words:
        offsets.append(text_length)
        text_length += len(word) + 1
    audio, events = synthesizer.say(" ".join(words), voice.name, voice.rate, voice.pitch)
    loud = np.flatnonzero(np.abs(audio) > SILENCE)
    audio = audio[: int(loud[-1]) + 1]
    # If an offset has several events, the first counts.
    event_times = dict(reversed(events))
    # espeak-ng speaks pairs such as "in the" as one word with one event; the second word then
    # starts at its share of the letters.
    event_offsets = [offset for offset in offsets if offset in event_times]
    times = [event_times[offset] for offset in event_offsets]
    end = len(audio) / SAMPLE_RATE
    starts = np.interp(offsets, [*event_offsets, text_length], [*times, end])
    return audio, [float(start) for start in starts]


def _hesitation(voice: Voice, rng: random.Random, synthesizer: Synthesizer) -> FloatArray:
    """Return a pause, or a filler between two halves of a pause."""
    pause = np.zeros(int(rng.uniform(0.12, 0.3) * SAMPLE_RATE), np.float32)
    if rng.random() < 0.5:
        return pause
    text = rng.choice(FILLERS)
    filler, _ = _timed((text,), voice, synthesizer)
    before, after = np.split(pause, [len(pause) // 2])
    return np.concatenate([before, filler, after])
