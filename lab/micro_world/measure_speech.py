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
        context = names.read_text().strip() if names.is_file() else ""
        for entry in (e for e in listing if e["wav"] == wav):
            begin, end = entry["offset"], entry["offset"] + entry["duration"]
            piece = audio[int(begin * SAMPLE_RATE) : int((end + MARGIN) * SAMPLE_RATE)]
            inside = [w for w in gold if begin - 1e-3 <= w[1] < end]
            words = tuple(Word(t, a - begin, b - begin) for t, a, b in inside)
            yield Segment(piece, words, context)


def measure(engines: Engines, devset: Path) -> dict[str, float]:
    """Measure word errors with and without the names, word ends, and cut audio."""
    found, aligner = list(segments(devset)), engines.aligner
    assert aligner is not None  # of every embedded configuration
    heard: dict[bool, list[str]] = {False: [], True: []}
    ends: list[float] = []
    counts: Counter[str] = Counter()
    for segment in tqdm(found, desc="speech"):
        for named, texts in heard.items():
            context = segment.context if named else ""
            texts.append(engines.asr.transcribe(segment.audio, "en", context).text or "")
        items = aligner.align(segment.audio, segment.text, "en")
        if len(items) != len(segment.words):
            raise RuntimeError(
                f"the aligner returned {len(items)} items for {len(segment.words)} words"
            )
        ends += [abs(i.end - w.end) for i, w in zip(items, segment.words, strict=True)]
        _cut(engines.asr, aligner, segment, counts)
    said = [segment.text for segment in found]
    return {
        "wer": _wer(said, heard[False]),
        "wer_with_context": _wer(said, heard[True]),
        "aligner_mae_ms": 1000 * float(np.mean(ends)),
        **{
            f"tail_error_{ms}_ms": counts[f"errors {ms}"] / max(1, counts[f"words {ms}"])
            for ms in BINS_S
        },
        "false_periods_per_cut": counts["periods"] / max(1, counts["cuts"]),
    }


def _cut(asr: Recognizer, aligner: Aligner, segment: Segment, counts: Counter[str]) -> None:
    """Count cuts inside a sentence, false periods, and words and errors at each hold-back."""
    reference = [word for said in segment.words for word in plain_words(said.text)]
    for number in range(1, int(segment.words[-1].end / CUT_EVERY_S) + 1):
        stop = number * CUT_EVERY_S
        audio = segment.audio[: int(stop * SAMPLE_RATE)]
        text = asr.transcribe(audio, "en").text or ""
        counts.update(cuts=1, periods=text.endswith("."))
        if not text:
            continue
        items = aligner.align(audio, text, "en")
        pieces = [(word, item.end) for item in items for word in plain_words(item.text)]
        right = matches([word for word, _ in pieces], reference)
        for (_, end), correct in zip(pieces, right, strict=True):
            for hold_back, (nearest, farthest) in BINS_S.items():
                if nearest <= max(0.0, stop - end) < farthest:
                    counts[f"words {hold_back}"] += 1
                    counts[f"errors {hold_back}"] += not correct


def _wer(references: list[str], hypotheses: list[str]) -> float:
    said, heard = ([" ".join(plain_words(t)) for t in texts] for texts in (references, hypotheses))
    return float(jiwer.wer(said, heard))
