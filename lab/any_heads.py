"""A head set for any target, on a target that was left out of it, beside that target's own set.

Merges the sets of the other targets (`alignatt calibrate merge`) and streams the embedded dev set
with the result. Example, ten minutes:
  python -m lab.any_heads --output outputs/any_heads
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from alignatt_agent.calibration.head_set_file import write
from alignatt_agent.calibration.merge import Scored, load_scored, losses, merge
from alignatt_agent.config.agent_config import load_config
from lab import commands

CONFIGS = ("micro-low", "micro-follows-low")
FIGURES = ("bleu", "longyaal_cu_ms")


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = commands.parser("lab.any_heads", __doc__)
    parser.add_argument("--output", type=Path, required=True, metavar="OUT", help="output folder")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Measure every target of both translators."""
    output = build_parser().parse_args(argv).output
    rows = [row for config in CONFIGS for row in _translator(config, output)]
    commands.write_json(output / "any_heads.json", {**commands.machine(), "rows": rows})
    return 0


def _translator(name: str, output: Path) -> list[dict[str, Any]]:
    config = load_config(name)
    sets = {code: load_scored(path) for code, path in config.head_sets.items()}
    _evaluate(name, output / name, list(sets))
    return [_left_out(name, code, sets, output) for code in sets]


def _left_out(name: str, code: str, sets: dict[str, Scored], output: Path) -> dict[str, Any]:
    others = [item for other, item in sets.items() if other != code]
    content, heads = merge(others, len(sets[code].head_set.heads))
    file = output / f"{name}-not-{code}.json"
    write(file, content)
    folder = output / f"{name}-not-{code}"
    _evaluate(name, folder, [code], f'head_sets={{"*": {file}}}')
    (loss,) = losses(heads, [sets[code]])
    row: dict[str, Any] = {"config": name, "target": code, "ts": loss.own, "ts_any": loss.merged}
    for suffix, run in (("", output / name), ("_any", folder)):
        scores = json.loads((run / code / "scores.json").read_text(encoding="utf-8"))
        row |= {figure + suffix: scores[figure] for figure in FIGURES}
    print(row, flush=True)
    return row


def _evaluate(config: str, output: Path, targets: Sequence[str], *settings: str) -> None:
    command = ["eval", "--config", config, "--target", *targets, "--output", str(output)]
    command += ["--devset", "micro_models/devset"]
    for setting in settings:
        command += ["--set", setting]
    subprocess.run([sys.executable, "-m", "alignatt_agent.cli", *command], check=True)


if __name__ == "__main__":
    sys.exit(main())
