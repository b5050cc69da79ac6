"""Transcribe whole recordings for the off-line cascade.

A recording is cut into pieces at pauses. A frame of 10 ms is quiet if its level is closer to the
noise floor than to the speech level of the recording. Each piece contains as much speech as fits.
If a passage without a pause is too long, it is cut at its quietest point.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import soundfile
from tqdm import tqdm

from alignatt_agent.config.languages import language
from alignatt_agent.speech.waveform import quietest
from alignatt_agent.speech.word_times import time_words
from alignatt_agent.text.running_text import join_words, split_words
from alignatt_agent.text.sentences import split_sentences
from alignatt_agent.types import SAMPLE_RATE, FloatArray, Word

if TYPE_CHECKING:
    from alignatt_agent.cascade.engines import Engines

LOGGER = logging.getLogger(__name__)

FRAME = SAMPLE_RATE // 100
"""Number of samples in a frame of 10 ms."""

PAUSE = 40
"""Minimum number of quiet frames in a pause; hesitations inside a sentence are shorter."""

QUIET_SHARE = 0.3
"""Quiet part of the dB range from the noise floor (5th percentile) to speech (95th)."""

QUIET_DB = 20.0
"""Minimum distance from quiet to speech in dB, so that audio without silence has no pause."""

LONGEST_ALIGNED_S = 120.0
"""Longest audio for the aligner, in seconds; longer pieces do not repeat their last sentence."""

_SMOOTHED = 3
"""Number of frames in the moving average of the level."""

_QUIETEST = 30
"""Number of frames whose mean level determines the quietest point."""


class Pieces:
    """Pieces of a 16 kHz mono 16-bit PCM file, each at most ``longest_s`` seconds long."""

    def __init__(self, wav: Path, longest_s: float) -> None:
        self._wav = wav
        self._longest = max(1, round(longest_s * SAMPLE_RATE / FRAME))
        level = levels(wav)
        self.frames = len(level)
        # Smoothing keeps single loud frames, e.g. clicks, from ending a pause.
        padded = np.pad(level, _SMOOTHED // 2, "edge")
        self._level = np.convolve(padded, np.full(_SMOOTHED, 1 / _SMOOTHED), "valid")
        floor, speech = np.percentile(self._level, [5, 95])
        loudest_quiet = min(floor + QUIET_SHARE * (speech - floor), speech - QUIET_DB)
        self._loud = self._level >= loudest_quiet
        # With loud frames at both ends, every silence has a first and a last border.
        borders = np.flatnonzero(np.diff(np.pad(self._loud, 1, constant_values=True)))
        silences = borders.reshape(-1, 2).tolist()
        self._pauses = [(begin, end) for begin, end in silences if end - begin >= PAUSE]

    def piece(self, begin: int) -> tuple[int, int]:
        """Return the end frame of the piece that starts at ``begin``, and the next start frame."""
        last = begin + self._longest
        if last >= self.frames:
            return self.frames, self.frames
        fitting = bisect_right(self._pauses, last, key=lambda pause: pause[1])
        if fitting and self._pauses[fitting - 1][0] > begin:
            # Both pieces include the pause, because without a pause no period is transcribed.
            pause, end = self._pauses[fitting - 1]
            return end, pause
        # Without a pause, cut at the quietest point of the second half, so that no piece is short.
        half = (begin + last + 1) // 2
        width = min(_QUIETEST, last - half)
        if width < 1:
            return last, last
        mean = np.convolve(self._level[half:last], np.ones(width), "valid")
        cut = half + int(mean.argmin()) + (width + 1) // 2
        return cut, cut

    def speaks(self, begin: int, end: int) -> bool:
        """Return whether any frame in a range is loud."""
        return bool(self._loud[begin:end].any())

    def read(self, begin: int, end: int) -> FloatArray:
        """Return the audio between two frames, ``[samples]``."""
        stop = None if end == self.frames else end * FRAME
        audio: FloatArray
        audio, _ = soundfile.read(self._wav, start=begin * FRAME, stop=stop, dtype="float32")
        return audio


def levels(wav: Path) -> FloatArray:
    """Return the power of each 10 ms frame of a recording in dB, ``[frames]``, at least one."""
    powers: list[npt.NDArray[np.float64]] = []
    # In blocks of a minute: the squares of a whole recording would need much memory.
    for audio in soundfile.blocks(wav, 60 * SAMPLE_RATE, dtype="float32"):
        whole_frames = audio[: audio.size // FRAME * FRAME].reshape(-1, FRAME)
        powers.append(np.square(whole_frames, dtype=np.float64).mean(1))
    power = np.concatenate(powers) if powers else np.zeros(0)
    if not power.size:  # less than one frame of audio
        power = np.zeros(1)
    decibels: FloatArray = (10 * np.log10(power + 1e-10)).astype(np.float32)
    return decibels


def transcribe(
    engines: Engines, wav: Path, source: str, longest_s: float, context: str = ""
) -> str:
    """Return the transcript of a recording; ``context`` gives the recognizer names and terms.

    Recognizers make errors at the end of their audio. If an aligner supports the language, the last
    sentence of a piece is therefore transcribed again at the beginning of the next piece.
    """
    recording = Pieces(wav, longest_s)
    transcript: list[str] = []
    begin = 0
    with tqdm(total=recording.frames, desc=f"transcribing {wav.stem}", unit="frame") as bar:
        while begin < recording.frames:
            end, following = recording.piece(begin)
            if recording.speaks(begin, end):
                audio = recording.read(begin, end)
                words = split_words(_piece_text(engines, audio, source, context))
                if end < recording.frames:
                    words, resumed = _without_last_sentence(engines, audio, words, source)
                    if resumed is not None:
                        following = begin + resumed
                transcript += words
            bar.update(following - begin)
            begin = following
    return join_words(transcript)


def _piece_text(engines: Engines, audio: FloatArray, source: str, context: str) -> str:
    """Return the transcript of a piece; if it does not end, split the piece in two and retry."""
    text = engines.asr.transcribe(audio, source, context).text
    if text is not None:
        return text
    if audio.size < SAMPLE_RATE:
        LOGGER.warning("part of the audio is skipped because its transcript does not end")
        return ""
    cut = quietest(audio, audio.size // 3, audio.size * 2 // 3)
    before = _piece_text(engines, audio[:cut], source, context)
    after = _piece_text(engines, audio[cut:], source, context)
    return f"{before} {after}"


def _without_last_sentence(
    engines: Engines, audio: FloatArray, words: list[str], source: str
) -> tuple[list[str], int | None]:
    """Return the words without the last sentence, and its start frame; ``None`` if none is cut."""
    seconds = audio.size / SAMPLE_RATE
    aligner = engines.aligner if language(source).timed else None
    if not words or seconds > LONGEST_ALIGNED_S or aligner is None:
        return words, None
    items = aligner.align(audio, join_words(words), source)
    timed: list[Word] = []
    for text, (start_s, end_s) in zip(words, time_words(words, items, seconds), strict=True):
        timed.append(Word(text, start_s, end_s))
    sentences, rest = split_sentences(timed, None, source)
    last: Sequence[Word] = rest
    if not rest and sentences:
        last = sentences.pop()
    # A single sentence is kept, because the next piece would begin at the same place.
    if not sentences:
        return words, None
    border_s = (sentences[-1][-1].end + last[0].start) / 2
    frame = round(border_s * SAMPLE_RATE / FRAME)
    if frame <= 0:
        return words, None
    return words[: -len(last)], frame
