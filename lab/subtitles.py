"""Subtitles of the talks of a run: reading speed, sentences over several cues, times of cues.

The folders are those of `make dev-low`; the captions are the recognizer's, from the first of them.
Rows with the same label in --output are replaced, others stay, so two versions share a table:
  python -m lab.subtitles outputs/dev-low/de outputs/dev-low/it --label after
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.trace import read_steps
from alignatt_agent.live.subtitles import SENTENCE, Cue, Said, layout, spoken_cues, width
from alignatt_agent.translation.units import QUOTES
from alignatt_agent.types import SourceSpan
from lab import commands


def talks(path: Path, captions: bool) -> list[list[Said]]:
    """Return the units of every talk of a ``steps.jsonl``, or the words of its sentences."""
    found: dict[str, list[Said]] = defaultdict(list)
    for step in read_steps(path):
        units = list(zip(step.units, step.times, strict=True))
        if captions:
            words = [word for sentence in step.heard.sentences for word in sentence]
            units = [(word.text, SourceSpan(word.start, word.end)) for word in words]
        found[step.talk] += [Said(text, spoken, step.audio_s) for text, spoken in units]
    return list(found.values())


def measure(talks: Sequence[Sequence[Said]], spaced: bool) -> dict[str, Any]:
    """Return figures of the cues of all talks; speeds in characters, wide ones in full."""
    form, wide = layout(spaced), 1 if spaced else 2
    limit = form.speed / wide
    shown = [(talk, spoken_cues(talk, form)) for talk in talks]
    cues = [cue for _, own in shown for cue in own]
    speeds = [sum(map(width, cue.lines)) / (cue.end - cue.start) / wide for cue in cues]
    rates = [_rate(talk, form.glue) / wide for talk, own in shown for _ in own]
    above = [
        (rate > limit, speed > limit + 1e-3) for rate, speed in zip(rates, speeds, strict=True)
    ]
    parts = [_parts(talk, own) for talk, own in shown]
    borders = [({n for n, _ in a}, {n for n, _ in b}) for own in parts for a, b in pairwise(own)]
    heard = [min(unit.spoken.start for _, unit in part) for own in parts for part in own]
    off_s = [abs(cue.start - start) for cue, start in zip(cues, heard, strict=True)]
    return {
        "cues": len(cues),
        "limit": limit,
        "above": float(np.mean([fast for _, fast in above])),
        "above_in_slow_talks": float(np.mean([fast for quick, fast in above if not quick] or [0])),
        "speed": {"p95": float(np.percentile(speeds, 95)), "largest": max(speeds)},
        "fastest_talk": max(rates),
        "split": sum(len(before & after) for before, after in borders),
        "started": sum(bool(before & after - {min(before)}) for before, after in borders),
        "off_s": {"mean": float(np.mean(off_s)), "largest": max(off_s)},
    }


def _rate(talk: Sequence[Said], glue: str) -> float:
    """Return the columns of a talk by the seconds of its speech."""
    end = max(unit.spoken.end for unit in talk)
    return sum(width(unit.text) + len(glue) for unit in talk) / (end - talk[0].spoken.start)


def _parts(talk: Sequence[Said], cues: Sequence[Cue]) -> list[list[tuple[int, Said]]]:
    """Return for each character of each cue its sentence and its unit."""
    number, owners = 0, []
    for unit in talk:
        owners += [(number, unit)] * len(unit.text)
        number += unit.text.rstrip(QUOTES).endswith(tuple(SENTENCE))
    rest = iter(owners)
    return [[next(rest) for _ in "".join("".join(cue.lines).split())] for cue in cues]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line."""
    given = build_parser().parse_args(argv)
    rows = json.loads(given.output.read_text())["rows"] if given.output.exists() else []
    rows = [row for row in rows if row["label"] != given.label]
    found = [(folder.name, folder, False) for folder in given.folders]
    for name, folder, captions in [*found, ("en", given.folders[0], True)]:
        figures = measure(talks(folder / "steps.jsonl", captions), language(name).spaced)
        rows.append({"language": name, "label": given.label, **figures})
    rows.sort(key=lambda row: row["language"])
    commands.write_json(given.output, {"rows": rows, **commands.machine()})
    return 0


def build_parser() -> Any:
    """Build the command line."""
    parser = commands.parser("lab.subtitles", __doc__)
    parser.add_argument("folders", nargs="+", type=Path, metavar="RUN/LANGUAGE")
    parser.add_argument("--label", default="after", help="of the rows; default %(default)s")
    parser.add_argument("--output", type=Path, default=Path("outputs/subtitles.json"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
