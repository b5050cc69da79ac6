"""Print the table of commit rules of docs/evidence.md, from constructed talks or recorded words.

Examples:
  python -m lab.commit_rules
  python -m lab.commit_rules --recorded PIECES.json

PIECES.json contains ``{"pieces": [[[start, end, ends sentence], ...], ...]}``.
"""

import argparse
import itertools
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
from tabulate import tabulate

from alignatt_agent.types import Word
from lab import commands
from tests.speech.recognizer_errors import CHUNKS_MS, ErrorModel, make_talk, stream

TALKS, SENTENCES = 4, 90


def recorded_talks(content: dict[str, Any]) -> list[list[Word]]:
    """Return the words of pieces of talks; each ends its last sentence."""
    return [
        [
            Word(f"w{i}e" + "." * (final or i + 1 == len(piece)), start + 0.3, end + 0.3)
            for i, (start, end, final) in enumerate(piece)
        ]
        for piece in content["pieces"]
    ]


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = commands.parser("lab.commit_rules", __doc__)
    parser.add_argument("--recorded", type=Path, metavar="JSON", help="file with recorded words")
    return parser


def main() -> None:
    """Print the table."""
    given = build_parser().parse_args().recorded
    heard = [make_talk(random.Random(seed), SENTENCES) for seed in range(TALKS)]
    if given is not None:
        heard = recorded_talks(json.loads(given.read_text("utf-8")))
    sentences = sum(word.text.endswith(".") for talk in heard for word in talk)
    rows = []
    for rule, chunk_ms in itertools.product(("agreed", "ended"), CHUNKS_MS):
        settings = {"commit": rule, "hold_back_ms": 100.0}
        found = [stream(ErrorModel(t, i), chunk_ms, **settings) for i, t in enumerate(heard)]
        names = ("words", "lost", "doubled", "early", "relied", "cuts")
        counts = [sum(getattr(one, name) for one in found) for name in names]
        ends = 100 * sum(one.false_ends for one in found) / sentences
        delays = np.percentile([delay for one in found for delay in one.delays], [50, 95])
        rows.append((rule, chunk_ms, *counts, round(ends, 1), *delays))
    head = ("rule", "chunk ms", "words", "lost", "doubled", "early", "relied on", "cuts in words")
    print(tabulate(rows, (*head, "false ends / 100", "delay p50 s", "p95 s"), floatfmt=".2f"))


if __name__ == "__main__":
    main()
