"""Compare the transcripts of a run with off-line transcripts of the same recordings.

The output has word errors by kind, doubled words, sentence ends and their times. Each segment of
the dev set is one sentence with known times.
  python -m lab.real_world.speech RUN OFFLINE --devset DIR --output FILE
RUN is a target folder of simulstream-eval, and OFFLINE is the output folder of alignatt offline.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, NamedTuple

import jiwer
import numpy as np

from alignatt_agent.evaluation.devset import load_devset
from alignatt_agent.evaluation.run_files import RunFiles
from alignatt_agent.evaluation.statistics import micro
from alignatt_agent.evaluation.trace import read_steps
from alignatt_agent.evaluation.wer import (
    Counts,
    plain_words,
    reference_transcripts,
    segment_errors,
)
from lab import commands


class Sentence(NamedTuple):
    """A sentence of a transcript, with its times in seconds."""

    text: str
    start: float
    end: float


def counts(
    reference: Sequence[Sentence], heard: Sequence[Sentence], transcript: str
) -> Counter[str]:
    """Count words by what became of them, and sentence ends that are wrong or missing.

    A transcript without sentences (``heard`` is empty) is compared word by word only.
    """
    reference_sentences = [plain_words(sentence.text) for sentence in reference]
    heard_sentences = [plain_words(sentence.text) for sentence in heard]
    reference_words = list(chain.from_iterable(reference_sentences))
    words = list(chain.from_iterable(heard_sentences)) if heard else plain_words(transcript)
    totals: Counter[str] = Counter()
    last_aligned: dict[int, int] = {}  # word of the reference, by word of the transcript
    aligned = jiwer.process_words(" ".join(reference_words), " ".join(words))
    for part in aligned.alignments[0]:
        reference_length = part.ref_end_idx - part.ref_start_idx
        heard_length = part.hyp_end_idx - part.hyp_start_idx
        totals[part.type] += max(reference_length, heard_length)
        for place in range(part.hyp_start_idx, part.hyp_end_idx):
            opposite = part.ref_start_idx + place - part.hyp_start_idx
            # An inserted word has no opposite: it follows the last aligned word.
            last_aligned[place] = min(opposite, part.ref_end_idx - 1)
            repeats = place > 0 and words[place] == words[place - 1]
            totals["doubled"] += part.type == "insert" and repeats
    totals["words"] = len(reference_words)
    if heard:
        reference_ends = _last_words(reference_sentences)
        heard_ends = [last_aligned[place] for place in _last_words(heard_sentences)]
        distances = np.abs(np.subtract.outer(heard_ends, reference_ends))
        # A word that was not recognized may be the last one, so one word off is right.
        apart = distances > 1
        totals["sentences"] = len(reference_sentences)
        totals["false_ends"] = int(apart.all(axis=1).sum())
        totals["missed_ends"] = int(apart.all(axis=0).sum())
    return totals


def _last_words(sentences: Sequence[Sequence[str]]) -> list[int]:
    """Return the place of the last word of each sentence among the words of all."""
    lengths = [len(words) for words in sentences]
    return [end - 1 for end in accumulate(lengths)]


def end_errors(reference: Sequence[Sentence], heard: Sequence[Sentence]) -> list[float]:
    """Return how much later than spoken each sentence ends, where one ends within a second."""
    spoken_ends = np.array([sentence.end for sentence in reference])
    errors = []
    for sentence in heard:
        nearest = np.abs(spoken_ends - sentence.end).argmin()
        error = sentence.end - spoken_ends[nearest]
        # A difference of a second is another sentence end, which `counts` counts.
        if abs(error) < 1:
            errors.append(error)
    return errors


Talks = dict[str, list[Sentence]]
"""The sentences of each talk."""


def measure(run: Path, offline: Path, devset: Path) -> dict[str, Any]:
    """Compare the committed transcript of a run with the off-line one."""
    reference = _reference_talks(run, devset)
    heard = _heard_talks(run, reference)
    lines = (offline / "transcript.txt").read_text(encoding="utf-8").splitlines()
    offline_texts = dict(zip(reference, lines, strict=True))
    unsplit: Talks = {talk: [] for talk in reference}
    live, live_errors, words = _word_errors(reference, heard, offline_texts)
    off_line, offline_errors, _ = _word_errors(reference, unsplit, offline_texts)
    late = np.concatenate([end_errors(reference[talk], heard[talk]) for talk in reference])
    median = np.median(late)
    rows = [
        {
            "transcript": "live",
            **live,
            "late_s": round(float(median), 3),
            "late_p90_s": round(float(np.percentile(np.abs(late - median), 90)), 3),
            "minus_offline": micro(100 * (live_errors - offline_errors), words).as_json(),
        },
        {"transcript": "off-line", **off_line},
    ]
    signature = json.loads((run / "scores.json").read_text(encoding="utf-8"))["signature"]
    return {"signature": signature, "rows": rows}


def _reference_talks(run: Path, devset: Path) -> Talks:
    """Return the sentences of a dev set, by talk."""
    checked = load_devset(devset, ["en"], run / "speech", "en", audio=False)
    talks: Talks = {}
    for talk, spans in reference_transcripts(checked).items():
        talks[talk] = [Sentence(text, start, end) for start, end, text in spans]
    return talks


def _heard_talks(run: Path, names: Iterable[str]) -> Talks:
    """Return the sentences that a run closed, by talk."""
    talks: Talks = {talk: [] for talk in names}
    for step in read_steps(RunFiles(run).records):
        for words in step.heard.sentences:
            text = "".join(word.gap + word.text for word in words)
            sentence = Sentence(text, words[0].start, words[-1].end)
            talks[step.talk].append(sentence)
    return talks


def _word_errors(
    reference: Talks, heard: Talks, offline_texts: Mapping[str, str]
) -> tuple[dict[str, Any], Counts, Counts]:
    """Compare transcripts with the reference.

    The text of a talk without heard sentences is the off-line one.

    Returns:
        Word error rate and counts, and the errors and words of each segment, ``[segments]``.
    """
    totals: Counter[str] = Counter()
    errors, words = [], []
    for talk, sentences in reference.items():
        totals.update(counts(sentences, heard[talk], offline_texts[talk]))
        text = " ".join(sentence.text for sentence in heard[talk]) or offline_texts[talk]
        segments = [sentence.text for sentence in sentences]
        talk_errors, talk_words = segment_errors(segments, text)
        errors.append(talk_errors)
        words.append(talk_words)
    all_errors, all_words = np.concatenate(errors), np.concatenate(words)
    wer = micro(100 * all_errors, all_words).as_json()
    return {"wer": wer, **totals}, all_errors, all_words


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = commands.parser("lab.real_world.speech", __doc__)
    for name in ("run", "offline"):
        parser.add_argument(name, type=Path, metavar=name.upper())
    for option, kind in (("--devset", "DIR"), ("--output", "FILE")):
        parser.add_argument(option, type=Path, required=True, metavar=kind)
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line."""
    args = build_parser().parse_args(argv)
    commands.write_json(args.output, measure(args.run, args.offline, args.devset))


if __name__ == "__main__":
    main()
