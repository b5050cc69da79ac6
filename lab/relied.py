"""Words that a run relied on before they were over, by the true times of a generated dev set.

A word of an utterance is relied on once it is accessible or its sentence is closed. Example:
  python -m lab.relied outputs/aligner/de outputs/first_heard/de --devset micro_models/devset
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np
from tabulate import tabulate

from alignatt_agent.evaluation.wer import plain_words
from alignatt_agent.types import Word
from lab.commands import parser

AHEAD_S = 1.0
"""Words that begin later are not compared: nobody relies on them."""


@dataclass
class Reliance:
    """Words said, those relied on before they were over, and seconds from their end to that."""

    words: int = 0
    early: int = 0
    waits: list[float] = field(default_factory=list)


def add_talk(
    total: Reliance, gold: Sequence[Word], relied: Iterable[tuple[float, Sequence[str]]]
) -> None:
    """Add a talk: at each time the words that were relied on so far, closed ones included."""
    first: dict[int, float] = {}
    for now, texts in relied:
        said = [_plain(word.text) for word in gold if word.start < now + AHEAD_S]
        pairs = SequenceMatcher(None, list(map(_plain, texts)), said, autojunk=False)
        for _, i1, i2, j1, j2 in pairs.get_opcodes():  # those of insertions are empty
            for k in range(min(i2 - i1, j2 - j1)):
                first.setdefault(j1 + k, now)
    total.words += len(gold)
    total.early += sum(now < gold[k].end - 1e-3 for k, now in first.items())
    total.waits += [now - gold[k].end for k, now in first.items()]


def _plain(text: str) -> str:
    return "".join(plain_words(text))


def read_run(folder: Path, devset: Path) -> tuple[Reliance, dict[str, float]]:
    """Read the steps of a run; returns what it relied on and its scores."""
    talks: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in (folder / "steps.jsonl").open(encoding="utf-8"):
        step = json.loads(line)
        talks[step["talk"]].append(step)
    total = Reliance()
    for talk, steps in talks.items():
        gold = json.loads((devset / "gold" / f"{talk}.json").read_text(encoding="utf-8"))
        add_talk(total, [Word(*entry) for entry in gold], _relied(steps))
    return total, json.loads((folder / "scores.json").read_text(encoding="utf-8"))


def _relied(steps: Iterable[dict[str, Any]]) -> Iterator[tuple[float, list[str]]]:
    closed: list[str] = []
    for step in steps:
        closed += [word[0] for sentence in step["closed"] for word in sentence]
        yield step["audio_s"], closed + [word[0] for word in step["words"][: step["accessible"]]]


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line for every run."""
    options = parser("lab.relied", __doc__)
    options.add_argument("run", nargs="+", type=Path, help="folders with steps.jsonl")
    options.add_argument("--devset", type=Path, required=True, metavar="DIR", help="with gold/")
    given = options.parse_args(argv)
    rows = []
    for folder in given.run:
        found, scores = read_run(folder, given.devset)
        stages = scores["stages"]["ms_per_chunk"]
        share = 100 * stages["aligner"] / sum(stages.values())
        waits = np.mean(found.waits), *np.percentile(found.waits, [50, 95])
        quality = scores["bleu"], scores["longyaal_cu_ms"], share
        rows.append((str(folder), found.words, found.early, *waits, *quality))
    head = ("run", "words", "early", "wait mean s", "p50", "p95", "BLEU", "CU ms", "aligner %")
    print(tabulate(rows, head, floatfmt=".2f"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
