"""Compute the table of `alignatt doctor --predict`: what a chunk costs on devices not at hand.

Examples:
  from the run into German of `make dev-low` that lab/cost/workload.json holds:
    python -m lab.cost > alignatt_agent/doctor/predictions.yaml
  count another run first:
    python -m lab.cost --count outputs/dev-low/de > lab/cost/workload.json
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import yaml

from alignatt_agent.cli import report_errors
from alignatt_agent.config.agent_config import load_config
from lab import commands
from lab.cost.prediction import DEVICES, rtf, smallest_chunk
from lab.cost.workload import Workload, read_workload
from lab.stand_ins.__main__ import real_configurations

HEADER = """\
# Written by `python -m lab.cost`: computed, and confirmed by no GPU. For speech as in the
# embedded dev set: the real-time factor of a stream into one language, and the shortest chunk in
# milliseconds that keeps it at 0.5 or below (null: none up to 3000).
"""


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = commands.parser("lab.cost", __doc__)
    text = "count this target of a run instead, as JSON"
    parser.add_argument("--count", type=Path, metavar="DIR", help=text)
    return parser


def table(work: Workload) -> str:
    """Return the table of the doctor as YAML: configuration, device, figures."""
    rows = {name: _rows(name, work) for name in real_configurations()}
    return HEADER + yaml.safe_dump(rows, sort_keys=False, default_flow_style=None)


def _rows(name: str, work: Workload) -> dict[str, dict[str, float | int | None]]:
    config = load_config(name)
    chunk = work.at(config.chunk_ms / 1000)
    return {
        name: {
            "rtf": round(rtf(config, chunk, device), 2),
            "chunk_ms": smallest_chunk(config, work, device),
        }
        for name, device in DEVICES.items()
    }


def stored() -> Workload:
    """Return the workload that comes with this package."""
    text = Path(__file__).with_name("workload.json").read_text(encoding="utf-8")
    return Workload(**json.loads(text))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    arguments = build_parser().parse_args(argv)
    if arguments.count:
        print(json.dumps(asdict(read_workload(arguments.count)), indent=1))
    else:
        print(table(stored()), end="")
    return 0


if __name__ == "__main__":
    sys.exit(report_errors("python -m lab.cost", main))
