"""Transcripts of whole recordings, for the off-line cascade."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from alignatt_agent.evaluation.pieces import FRAME, Recording
from alignatt_agent.speech.sentences import split_sentences
from alignatt_agent.speech.word_times import time_words
from alignatt_agent.types import SAMPLE_RATE, FloatArray, Word

if TYPE_CHECKING:
    from alignatt_agent.cascade import Engines

LONGEST_ALIGNED_S = 120.0
"""The aligner takes no more at once; the last sentence of longer pieces is not heard again."""


def transcribe(engines: Engines, wav: Path, source: str, longest_s: float) -> str:
    """Return the transcript of a recording.

    A recogniser errs where its audio ends, so the last sentence of a piece is heard again at the
    beginning of the next one.
    """
    recording = Recording(wav, longest_s)
    found: list[str] = []
    begin = 0
    with tqdm(total=recording.frames, desc=f"transcribing {wav.stem}", unit="frame") as bar:
        while begin < recording.frames:
            end, following = recording.piece(begin)
            if recording.speaks(begin, end):
                audio = recording.read(begin, end)
                words = engines.asr.transcribe(audio, source).split()
                if end < recording.frames:
                    words, again = _without_last_sentence(engines, audio, words, source)
                    following = following if again is None else begin + again
                found += words
            bar.update(following - begin)
            begin = following
    return " ".join(found)


def _without_last_sentence(
    engines: Engines, audio: FloatArray, words: list[str], source: str
) -> tuple[list[str], int | None]:
    """Return the words before the last sentence, and the frame of ``audio`` where it begins.

    All words and ``None`` when there is one sentence only.
    """
    seconds = audio.size / SAMPLE_RATE
    if not words or seconds > LONGEST_ALIGNED_S:
        return words, None
    items = engines.aligner.align(audio, " ".join(words), source)
    spans = time_words(words, items, seconds)
    timed = [Word(word, *span) for word, span in zip(words, spans, strict=True)]
    sentences, rest = split_sentences(timed, None)
    last = rest or (sentences.pop() if sentences else ())
    if not sentences:
        return words, None
    border = (sentences[-1][-1].end + last[0].start) / 2
    frame = round(border * SAMPLE_RATE / FRAME)
    return (words[: -len(last)], frame) if frame > 0 else (words, None)
