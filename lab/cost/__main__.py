"""Compute the table of `alignatt doctor --predict`: what a chunk costs on devices not at hand.

Example:
    python -m lab.cost > alignatt_agent/doctor/predictions.yaml
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import yaml

from alignatt_agent.cli import report_errors
from alignatt_agent.config.agent_config import load_config
from lab import commands
from lab.cost.prediction import DEVICES, rtf, smallest_chunk
from lab.cost.workload import Workload, stored
from lab.stand_ins.__main__ import real_configurations

HEADER = """\
# Written by `python -m lab.cost`: computed, and confirmed by no GPU. For speech as in the
# embedded dev set: the real-time factor of a stream into one language, and the shortest chunk in
# milliseconds that keeps it at 0.5 or below (null: none up to 3000).
"""


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    return commands.parser("lab.cost", __doc__)


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


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    build_parser().parse_args(argv)
    print(table(stored()), end="")
    return 0


if __name__ == "__main__":
    sys.exit(report_errors("python -m lab.cost", main))
