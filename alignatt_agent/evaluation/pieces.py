"""Long recordings in pieces that a recogniser takes, cut in the pauses of the speaker.

Frames of 10 ms are quiet when they are closer to the noise floor of the recording than to its
speech. As many stretches of speech go into a piece as fit; a stretch that is too long by itself is
cut where it is quietest.
"""

from __future__ import annotations

import wave
from bisect import bisect_right
from itertools import groupby
from pathlib import Path

import numpy as np
import numpy.typing as npt

from alignatt_agent.types import SAMPLE_RATE, FloatArray

FRAME = SAMPLE_RATE // 100
"""Samples of a frame, 10 ms."""

PAUSE = 40
"""Frames of silence that make a pause; hesitations inside a sentence are shorter."""

QUIET_SHARE = 0.3
"""Where quiet ends between the noise floor (5th percentile) and speech (95th), in dB."""

QUIET_DB = 20.0
"""Quiet is at least this far below speech: a recording without any silence has no pause."""

_SMOOTHED = 3
_QUIETEST = 30


class Recording:
    """A recording on disk, of which a piece at a time is in memory.

    Args:
        wav: 16 kHz mono 16-bit PCM.
        longest_s: longest piece, in seconds.

    Attributes:
        frames: its length in frames.
    """

    def __init__(self, wav: Path, longest_s: float) -> None:
        self._wav = wav
        self._longest = max(1, round(longest_s * SAMPLE_RATE / FRAME))
        level = levels(wav)
        self.frames = len(level)
        padded = np.pad(level, _SMOOTHED // 2, "edge")
        self._level = np.convolve(padded, np.full(_SMOOTHED, 1 / _SMOOTHED), "valid")
        floor, speech = np.percentile(self._level, [5, 95])
        quiet = min(floor + QUIET_SHARE * (speech - floor), speech - QUIET_DB)
        self._loud = self._level >= quiet
        self._pauses = _pauses(self._loud)

    def piece(self, begin: int) -> tuple[int, int]:
        """Return where the piece that begins at ``begin`` ends, and where the next one begins.

        Both hear the pause between them: recognisers leave out a full stop without silence behind
        it.
        """
        last = begin + self._longest
        if last >= self.frames:
            return self.frames, self.frames
        fitting = bisect_right(self._pauses, last, key=lambda pause: pause[1])
        if fitting and self._pauses[fitting - 1][0] > begin:
            pause, end = self._pauses[fitting - 1]
            return end, pause
        half = (begin + last + 1) // 2
        width = min(_QUIETEST, last - half)
        if width < 1:
            return last, last
        mean = np.convolve(self._level[half:last], np.ones(width), "valid")
        cut = half + int(mean.argmin()) + (width + 1) // 2
        return cut, cut

    def speaks(self, begin: int, end: int) -> bool:
        """Whether anything between two frames is not silence."""
        return bool(self._loud[begin:end].any())

    def read(self, begin: int, end: int) -> FloatArray:
        """Return the audio between two frames, ``[samples]``."""
        with wave.open(str(self._wav), "rb") as stream:
            stream.setpos(begin * FRAME)
            last = stream.getnframes() if end == self.frames else end * FRAME
            return _read(stream, last - begin * FRAME)


def levels(wav: Path) -> FloatArray:
    """Return the power of every 10 ms of a recording in dB, ``[frames]``, at least one."""
    found = []
    with wave.open(str(wav), "rb") as stream:
        while (audio := _read(stream, 60 * SAMPLE_RATE)).size >= FRAME:
            frames = audio[: audio.size // FRAME * FRAME].reshape(-1, FRAME)
            found.append(np.square(frames, dtype=np.float64).mean(axis=1))
    power = np.concatenate(found) if found else np.zeros(1)
    decibels: FloatArray = (10 * np.log10(power + 1e-10)).astype(np.float32)
    return decibels


def _pauses(loud: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    found = []
    begin = 0
    for is_loud, group in groupby(loud.tolist()):
        end = begin + len(list(group))
        if not is_loud and end - begin >= PAUSE:
            found.append((begin, end))
        begin = end
    return found


def _read(stream: wave.Wave_read, samples: int) -> FloatArray:
    data = np.frombuffer(stream.readframes(samples), "<i2")
    return data.astype(np.float32) / np.float32(2**15)
