"""Compare the transcripts of a run with off-line transcripts of the same recordings.

The output has word errors by kind, doubled words, sentence ends and their times. Each segment of
the dev set is one sentence with known times.
  python -m lab.real_world.speech RUN OFFLINE --devset DIR --output FILE
RUN is a target folder of simulstream-eval, and OFFLINE is the output folder of alignatt offline.
"""

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jiwer
import numpy as np

from alignatt_agent.evaluation.devset import load_devset
from alignatt_agent.evaluation.run_files import RunFiles
from alignatt_agent.evaluation.statistics import micro
from alignatt_agent.evaluation.trace import read_steps
from alignatt_agent.evaluation.wer import plain_words, reference_transcripts, segment_errors
from lab import commands

Sentences = list[tuple[str, float, float]]  # text, start, end


def counts(reference: Sentences, heard: Sentences, transcript: str) -> Counter[str]:
    """Count words by what became of them, and sentence ends that are wrong or missing."""
    found: Counter[str] = Counter()
    said = [plain_words(text) for text, _, _ in reference]
    got = [plain_words(text) for text, _, _ in heard] or [plain_words(transcript)]
    flat, words = ([word for part in parts for word in part] for parts in (said, got))
    place = {}  # of the last aligned word before each word of the transcript
    for item in jiwer.process_words(" ".join(flat), " ".join(words)).alignments[0]:
        length = max(item.ref_end_idx - item.ref_start_idx, item.hyp_end_idx - item.hyp_start_idx)
        found[item.type] += length
        for k in range(item.hyp_start_idx, item.hyp_end_idx):
            known = item.ref_start_idx + k - item.hyp_start_idx
            place[k] = min(known, item.ref_end_idx - 1)
            repeats = item.type == "insert" and k and words[k] == words[k - 1]
            found["doubled"] += bool(repeats)
    found["words"] = len(flat)
    if heard:
        ends = np.cumsum([len(part) for part in said]) - 1
        closed = np.array([place[k - 1] for k in np.cumsum([len(part) for part in got]).tolist()])
        # A word that was not recognized may be the last one, so one word off is right.
        apart = np.abs(closed[:, None] - ends) > 1
        found["sentences"] = len(said)
        found["false_ends"] = int(apart.all(1).sum())
        found["missed_ends"] = int(apart.all(0).sum())
    return found


def end_errors(reference: Sentences, heard: Sentences) -> list[float]:
    """Return how much later than spoken each sentence ends, where one ends within a second."""
    spoken = np.array([end for _, _, end in reference])
    late = [end - spoken[np.abs(spoken - end).argmin()] for _, _, end in heard]
    return [error for error in late if abs(error) < 1]


def measure(run: Path, offline: Path, devset: Path) -> dict[str, Any]:
    """Compare the committed transcript of a run with the off-line one."""
    checked = load_devset(devset, ["en"], run / "speech", "en", audio=False)
    reference = {
        talk: [(text, start, end) for start, end, text in spans]
        for talk, spans in reference_transcripts(checked).items()
    }
    heard: dict[str, Sentences] = {talk: [] for talk in reference}
    for step in read_steps(RunFiles(run).records):
        for words in step.heard.sentences:
            text = "".join(word.gap + word.text for word in words)
            heard[step.talk].append((text, words[0].start, words[-1].end))
    lines = (offline / "transcript.txt").read_text(encoding="utf-8").splitlines()
    whole = dict(zip(reference, lines, strict=True))
    rows, errors = [], {}
    for name, given in (("live", heard), ("off-line", {talk: [] for talk in heard})):
        found: Counter[str] = Counter()
        by_segment = []
        for talk, spans in reference.items():
            found.update(counts(spans, given[talk], whole[talk]))
            live = " ".join(text for text, _, _ in given[talk]) or whole[talk]
            by_segment.append(segment_errors([text for text, _, _ in spans], live))
        errors[name], total = (np.concatenate(part) for part in zip(*by_segment, strict=True))
        wer = micro(100 * errors[name], total).as_json()
        rows.append({"transcript": name, "wer": wer, **found})
    difference = micro(100 * (errors["live"] - errors["off-line"]), total).as_json()
    late = np.concatenate([end_errors(reference[talk], heard[talk]) for talk in reference])
    rows[0]["late_s"] = round(float(np.median(late)), 3)
    rows[0]["late_p90_s"] = round(float(np.percentile(np.abs(late - np.median(late)), 90)), 3)
    rows[0]["minus_offline"] = difference
    signature = json.loads((run / "scores.json").read_text(encoding="utf-8"))["signature"]
    return {"signature": signature, "rows": rows}


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
