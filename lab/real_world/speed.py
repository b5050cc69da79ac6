r"""Collect the speed of evaluations on different processors or with different kernels.

Each evaluation is an output folder of `alignatt eval` with one target, streamed on an otherwise
idle machine. All must have used the same dev set and the same configuration.

Example:
  alignatt eval --config laptop-low --target de --devset DIR --output OUT
  python -m lab.real_world.speed "AVX-512 VNNI=OUT" --json lab/results/real-speed.json

exit status: 0 success; 2 evaluations that cannot be compared
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from alignatt_agent.cli import report_errors
from alignatt_agent.config.agent_config import ConfigError
from lab import commands

SHARED = ("devset", "audio", "config_sha256", "versions", "target")
"""Parts of a signature that must be the same in all evaluations."""


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = commands.parser("lab.real_world.speed", __doc__)
    parser.add_argument("runs", nargs="+", metavar="LABEL=OUT", help="name of a row and its folder")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="file to write")
    return parser


def speed_of(label: str, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the signature and the figures of the evaluation in ``folder``."""
    runs = sorted(folder.glob("*/run.json"))
    if len(runs) != 1:
        raise ConfigError(f"{folder} contains {len(runs)} evaluated targets: expected one")
    run_file = runs[0]
    signature = json.loads(run_file.read_text(encoding="utf-8"))
    scores = json.loads(run_file.with_name("scores.json").read_text(encoding="utf-8"))
    stages = scores["stages"]
    steps = scores["decoding"]["steps"]
    drafting_s = stages["chunks"] * stages["ms_per_chunk"]["draft"] / 1000
    figures = {
        "label": label,
        "kernel": signature["kernel"],
        "rtf": scores["rtf"],
        "stages": stages["rtf"],
        "steps_per_chunk": steps / stages["chunks"],
        "ms_per_step": 1000 * drafting_s / steps,
        "bleu": scores["bleu"],
        "chrf": scores["chrf"],
        "longyaal_cu_ms": scores["longyaal_cu_ms"],
        "longyaal_ca_ms": scores["longyaal_ca_ms"],
    }
    return signature, figures


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    arguments = build_parser().parse_args(argv)
    signatures, rows = [], []
    for run in arguments.runs:
        label, _, folder = run.rpartition("=")
        signature, figures = speed_of(label, Path(folder))
        signatures.append(signature)
        rows.append(figures)
    first = signatures[0]
    for run, signature in zip(arguments.runs, signatures, strict=True):
        for key in SHARED:
            if signature[key] != first[key]:
                expected = f"{first[key]} of {arguments.runs[0]}"
                raise ConfigError(f"{run}: {key} {signature[key]} differs from {expected}")
    commands.write_json(arguments.json, {"signature": first, "rows": rows})
    cells = [[row["label"], row["kernel"], f"{row['rtf']:.2f}"] for row in rows]
    print(commands.table(cells, ("processor", "kernel", "real-time factor")))
    return 0


if __name__ == "__main__":
    sys.exit(report_errors("python -m lab.real_world.speed", main))
