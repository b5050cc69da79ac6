"""Print the table of commit rules of docs/evidence.md, from constructed talks or recorded words.

Examples:
  python -m lab.commit_rules
  python -m lab.commit_rules --recorded PIECES.json

PIECES.json contains ``{"pieces": [[[start, end, ends sentence], ...], ...]}``.
"""

import argparse
import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tabulate import tabulate

from alignatt_agent.types import Word
from lab import commands
from tests.speech.recognizer_errors import CHUNKS_MS, ErrorModel, make_talk, stream

TALKS, SENTENCES = 4, 90
RULES = ("agreed", "ended")

COUNTS = ("words", "lost", "doubled", "early", "relied", "cuts")
"""Counts of the error model in the table."""

COLUMNS = (
    *("rule", "chunk ms", "words", "lost", "doubled", "early", "relied on", "cuts in words"),
    *("false ends / 100", "delay p50 s", "p95 s"),
)


def recorded_talks(content: dict[str, Any]) -> list[list[Word]]:
    """Return the words of pieces of talks; each ends its last sentence."""
    talks: list[list[Word]] = []
    for piece in content["pieces"]:
        talk: list[Word] = []
        for number, (start, end, ends_sentence) in enumerate(piece):
            is_last = number + 1 == len(piece)
            text = f"w{number}e"
            if ends_sentence or is_last:
                text += "."
            # As in constructed talks, 0.3 s of silence come first.
            talk.append(Word(text, start + 0.3, end + 0.3))
        talks.append(talk)
    return talks


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = commands.parser("lab.commit_rules", __doc__)
    parser.add_argument("--recorded", type=Path, metavar="JSON", help="file with recorded words")
    return parser


def main() -> None:
    """Print the table."""
    recorded = build_parser().parse_args().recorded
    if recorded is None:
        talks = [make_talk(random.Random(seed), SENTENCES) for seed in range(TALKS)]
    else:
        talks = recorded_talks(json.loads(recorded.read_text("utf-8")))
    rows = [row(rule, chunk_ms, talks) for rule in RULES for chunk_ms in CHUNKS_MS]
    print(tabulate(rows, COLUMNS, floatfmt=".2f"))


def row(rule: str, chunk_ms: int, talks: Sequence[Sequence[Word]]) -> list[Any]:
    """Stream all talks with a commit rule; return a row of the table."""
    totals: Counter[str] = Counter()
    delays: list[float] = []
    for seed, talk in enumerate(talks):
        outcome = stream(ErrorModel(talk, seed), chunk_ms, commit=rule, hold_back_ms=100.0)
        for name in (*COUNTS, "false_ends"):
            totals[name] += getattr(outcome, name)
        totals["sentences"] += sum(word.text.endswith(".") for word in talk)
        delays += outcome.delays
    counts = [totals[name] for name in COUNTS]
    false_ends = 100 * totals["false_ends"] / totals["sentences"]
    median, p95 = np.percentile(delays, [50, 95])
    return [rule, chunk_ms, *counts, round(false_ends, 1), median, p95]


if __name__ == "__main__":
    main()
