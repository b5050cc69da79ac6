"""Errors of the micro recognizer and aligner on held-out audio, both whole and cut."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import jiwer
import numpy as np
import soundfile
import yaml
from tqdm import tqdm

from alignatt_agent.cascade.engines import Engines
from alignatt_agent.evaluation.wer import matches, plain_words
from alignatt_agent.types import SAMPLE_RATE, FloatArray, Word
from alignatt_agent.types.engines import Aligner, Recognizer

MARGIN = 0.35
"""Seconds of audio kept after a segment, on which its full stop depends."""
CUT_EVERY_S = 0.85
"""Seconds between cuts of the audio: a chunk of the paper's low operating point."""
BINS_S = {0: (0.0, 0.125), 250: (0.25, 0.375)}
"""Distances to the end of the audio at which the live tail is judged, by hold-back in ms."""


class Segment(NamedTuple):
    """A sentence of a dev set: audio, gold words with times from its start, and names."""

    audio: FloatArray
    words: tuple[Word, ...]
    context: str

    @property
    def text(self) -> str:
        """Return the reference transcript."""
        return " ".join(word.text for word in self.words)


def segments(devset: Path) -> Iterator[Segment]:
    """Yield the sentences of a dev set."""
    listing = yaml.safe_load((devset / "audio-segments.yaml").read_text())
    for wav in dict.fromkeys(entry["wav"] for entry in listing):
        audio, _ = soundfile.read(devset / "wav" / wav, dtype="float32")
        gold = json.loads((devset / "gold" / wav).with_suffix(".json").read_text())
        names = (devset / "contexts" / wav).with_suffix(".txt")
        context = ""
        if names.is_file():
            context = names.read_text().strip()
        for entry in listing:
            if entry["wav"] != wav:
                continue
            begin, end = entry["offset"], entry["offset"] + entry["duration"]
            piece = audio[int(begin * SAMPLE_RATE) : int((end + MARGIN) * SAMPLE_RATE)]
            words = []
            for text, word_start, word_end in gold:
                # Times are rounded to a millisecond.
                if begin - 1e-3 <= word_start < end:
                    words.append(Word(text, word_start - begin, word_end - begin))
            yield Segment(piece, tuple(words), context)


def measure(engines: Engines, devset: Path) -> dict[str, float]:
    """Measure word errors with and without the names, word ends, and cut audio."""
    aligner = engines.aligner
    assert aligner is not None  # of every embedded configuration
    references: list[str] = []
    transcripts: list[str] = []
    transcripts_with_context: list[str] = []
    end_errors: list[float] = []
    counts: Counter[str] = Counter()
    for segment in tqdm(list(segments(devset)), desc="speech"):
        references.append(segment.text)
        transcripts.append(_transcript(engines.asr, segment.audio))
        transcripts_with_context.append(_transcript(engines.asr, segment.audio, segment.context))
        end_errors += _end_errors(aligner, segment)
        _count_cuts(engines.asr, aligner, segment, counts)
    figures = {
        "wer": _wer(references, transcripts),
        "wer_with_context": _wer(references, transcripts_with_context),
        "aligner_mae_ms": 1000 * float(np.mean(end_errors)),
    }
    for hold_back in BINS_S:
        errors, words = counts[f"errors {hold_back}"], counts[f"words {hold_back}"]
        figures[f"tail_error_{hold_back}_ms"] = errors / max(1, words)
    figures["false_periods_per_cut"] = counts["periods"] / max(1, counts["cuts"])
    return figures


def _transcript(asr: Recognizer, audio: FloatArray, context: str = "") -> str:
    return asr.transcribe(audio, "en", context).text or ""


def _end_errors(aligner: Aligner, segment: Segment) -> list[float]:
    """Return the absolute error of each word end in seconds."""
    aligned_words = aligner.align(segment.audio, segment.text, "en")
    if len(aligned_words) != len(segment.words):
        raise RuntimeError(
            f"the aligner returned {len(aligned_words)} items for {len(segment.words)} words"
        )
    pairs = zip(aligned_words, segment.words, strict=True)
    return [abs(aligned.end - word.end) for aligned, word in pairs]


def _count_cuts(asr: Recognizer, aligner: Aligner, segment: Segment, counts: Counter[str]) -> None:
    """Count cuts inside a sentence, false periods, and words and errors at each hold-back."""
    reference: list[str] = []
    for word in segment.words:
        reference += plain_words(word.text)
    cut_count = int(segment.words[-1].end / CUT_EVERY_S)
    for number in range(1, cut_count + 1):
        stop = number * CUT_EVERY_S
        audio = segment.audio[: int(stop * SAMPLE_RATE)]
        text = _transcript(asr, audio)
        counts["cuts"] += 1
        counts["periods"] += text.endswith(".")
        if not text:
            continue
        words: list[str] = []
        ends: list[float] = []
        for aligned in aligner.align(audio, text, "en"):
            plain = plain_words(aligned.text)
            words += plain
            ends += [aligned.end] * len(plain)
        for end, correct in zip(ends, matches(words, reference), strict=True):
            # The aligner may place the end of a word after the end of the audio.
            distance = max(0.0, stop - end)
            for hold_back, (nearest, farthest) in BINS_S.items():
                if nearest <= distance < farthest:
                    counts[f"words {hold_back}"] += 1
                    counts[f"errors {hold_back}"] += not correct


def _wer(references: list[str], hypotheses: list[str]) -> float:
    plain_references = [" ".join(plain_words(text)) for text in references]
    plain_hypotheses = [" ".join(plain_words(text)) for text in hypotheses]
    return float(jiwer.wer(plain_references, plain_hypotheses))
