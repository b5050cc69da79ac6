"""Compute what a chunk costs on a device, or the table of `alignatt doctor --predict`.

Examples:
  a configuration on a device that is not here, for speech as in a recorded run:
    python -m lab.cost --config default-low --device h200 --run outputs/dev-low/de
  the table that the doctor prints, from the run that lab/cost/workload.json holds:
    python -m lab.cost --table alignatt_agent/doctor/predictions.yaml
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from alignatt_agent.cli import report_errors
from alignatt_agent.config.agent_config import load_config
from alignatt_agent.config.command_line import page
from lab.cost.model import DEVICES, lines, rtf, smallest_chunk
from lab.cost.workload import Workload, read_workload
from lab.stand_ins.__main__ import real_configurations

WORKLOAD = Path(__file__).with_name("workload.json")
"""Counted in the run into German of `make dev-low`."""

HEADER = """\
# Written by `python -m lab.cost --table`: computed, and confirmed by no GPU. For speech as in the
# embedded dev set: the real-time factor of a stream into one language, and the shortest chunk in
# milliseconds that keeps it at 0.5 or below (null: none up to 3000).
"""


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = argparse.ArgumentParser("python -m lab.cost", **page(__doc__))
    add = parser.add_argument
    add("--config", default="default-low", help="configuration; default %(default)s")
    add("--device", choices=list(DEVICES), default="cpu", help="default %(default)s: this machine")
    text = "a run's target, whose steps are counted; default: lab/cost/workload.json"
    add("--run", type=Path, metavar="DIR", help=text)
    add("--table", type=Path, metavar="FILE", help="write the table of the doctor there")
    return parser


def table(work: Workload) -> str:
    """Return the table of the doctor as YAML: configuration, device, figures."""
    rows = {name: _rows(name, work) for name in real_configurations()}
    return HEADER + yaml.safe_dump(rows, sort_keys=False, default_flow_style=None)


def _rows(name: str, work: Workload) -> dict[str, dict[str, float | int | None]]:
    config = load_config(name)
    chunk = work.at(config.chunk_ms / 1000)
    return {
        device: {
            "rtf": round(rtf(config, chunk, device), 2),
            "chunk_ms": smallest_chunk(config, work, device),
        }
        for device in DEVICES
        if device != "cpu"
    }


def stored() -> Workload:
    """Return the workload that comes with this package."""
    return Workload(**json.loads(WORKLOAD.read_text(encoding="utf-8")))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    arguments = build_parser().parse_args(argv)
    work = read_workload(arguments.run) if arguments.run else stored()
    if arguments.table:
        arguments.table.write_text(table(work), encoding="utf-8")
        return 0
    print("\n".join(lines(load_config(arguments.config), work, arguments.device)))
    return 0


if __name__ == "__main__":
    sys.exit(report_errors("python -m lab.cost", main))
