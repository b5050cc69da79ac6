"""Compare the largest step in the first 30 s of each streamed talk with the median step.

Of several runs of a configuration each step counts with its shortest time.

Examples:
  python -m lab.bench.steps outputs/steps/*/*/de --output outputs/steps.json
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any

from alignatt_agent.config.command_line import shared_options
from alignatt_agent.evaluation.log import parse_log
from alignatt_agent.evaluation.run_files import RunFiles
from alignatt_agent.evaluation.trace import TalkStep, read_steps
from lab import commands

SECONDS = 30.0


def timed(folder: Path) -> dict[str, list[tuple[float, TalkStep]]]:
    """Return the steps of each talk with their milliseconds, as the harness timed them."""
    files, found = RunFiles(folder), {}
    steps = list(read_steps(files.records))
    for talk in parse_log(files.metrics).talks:
        pairs = zip(talk.chunks, (step for step in steps if step.talk == talk.name), strict=False)
        found[talk.name] = [
            (1000 * chunk.computation_s, step) for chunk, step in pairs if step.audio_s <= SECONDS
        ]
    return found


def figures(folders: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """Yield a row for each talk of several equal runs."""
    runs = [timed(folder) for folder in folders]
    for talk in runs[0]:
        same = zip(*(run[talk] for run in runs), strict=True)
        steps = [min(times, key=itemgetter(0)) for times in same]
        heard = [(ms, step) for ms, step in steps if step.seconds["asr"]]
        usual = [median(ms for ms, _ in listed) for listed in (steps, heard)]
        most, largest = max(steps, key=itemgetter(0))
        yield {
            "talk": talk,
            "median_ms": usual,
            "largest_ms": most,
            "ratio": [most / ms for ms in usual],
            "tokens": [median(step.passes for _, step in heard), largest.passes],
            "audio_s": largest.audio_s,
            "words_closed": sum(map(len, largest.heard.sentences)),
            "stages_ms": {stage: 1000 * spent for stage, spent in largest.seconds.items()},
        }


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = commands.parser("lab.bench.steps", __doc__)
    parser.add_argument("folders", nargs="+", type=Path, metavar="RUN/LANGUAGE")
    shared_options(parser, output={"required": True, "metavar": "FILE", "help": "JSON file"})
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line."""
    given, equal = build_parser().parse_args(argv), defaultdict[tuple[str, str], list[Path]](list)
    for folder in given.folders:
        about = json.loads(RunFiles(folder).finished.read_text(encoding="utf-8"))
        equal[about["config"], about["target"]].append(folder)
    rows = [
        {"config": config, "target": target, "runs": len(folders), **row}
        for (config, target), folders in equal.items()
        for row in figures(folders)
    ]
    commands.write_json(given.output, {**commands.machine(), "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
