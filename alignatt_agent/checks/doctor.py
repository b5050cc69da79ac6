"""``alignatt doctor``: is everything on this machine as it has to be?"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from alignatt_agent import __version__
from alignatt_agent.checks import doctor_config, doctor_machine
from alignatt_agent.checks.doctor_machine import Check
from alignatt_agent.config.agent_config import AgentConfig, load_config
from alignatt_agent.config.resolved import resolve
from alignatt_agent.config.resources import known_resources

EPILOG = """\
examples
  the embedded micro models, which need no download:
    alignatt doctor
  the configuration that you want to run, before a talk:
    alignatt doctor --config default-low --json doctor.json
  without loading a model:
    alignatt doctor --config default-low --no-engines

checks
  versions, torchvision, device, checkpoints and their revisions, memory against the configured
  shares, head sets against the model. With engines: all three start, key layout, attention rows
  against Transformers, same tokens with and without rows, early stop, ms per token, a second of
  noise through recogniser and aligner; on a CUDA device also PIECEWISE and FULL graphs at odd
  batch sizes (that part was never run so far: none was at hand).

exit status: 0 all is well, warnings aside; 1 something is off, its fix is named; 2 wrong usage
"""


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    names = known_resources("agent_configs", ".yaml")
    parser = argparse.ArgumentParser(
        prog="alignatt doctor",
        description="Check this machine against a configuration and name what to fix.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--config",
        default="micro-low",
        help=f"name ({', '.join(names)}) or path of a YAML configuration; default %(default)s",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the report there")
    parser.add_argument(
        "--no-engines", action="store_true", help="static checks only: nothing is loaded"
    )
    return parser


def examine(config: AgentConfig, engines: bool) -> Iterator[Check]:
    """Run all checks; they come as they are made.

    Args:
        config: what is to run here.
        engines: whether to start the engines, where the static checks allow it.
    """
    machine = doctor_machine.look_around()
    static = doctor_machine.check_versions(machine)
    static += [doctor_machine.check_torchvision(machine), *doctor_machine.check_device(machine)]
    found, located = doctor_config.check_checkpoints(config)
    static += found
    weights = {role: doctor_config.weight_bytes(model) for role, model in located.items()}
    static.append(doctor_config.check_memory(machine, config, weights))
    static += doctor_config.check_graphs(machine, config)
    translation = located.get("translation")
    shape = doctor_config.decoder_shape(translation) if translation else None
    static += doctor_config.check_head_sets(config, shape)
    yield from static
    if not engines:
        return
    if exit_status(static):
        yield Check("engines", "warn", "not started", "fix what failed above first")
        return
    from alignatt_agent.checks import doctor_engines

    yield from doctor_engines.examine(resolve(config))


def exit_status(checks: Sequence[Check]) -> int:
    """0 when nothing failed, else 1."""
    return int(any(check.status == "FAIL" for check in checks))


def table(check: Check) -> str:
    """Format one check as a line, and a second one with its fix."""
    line = f"{check.status:<5} {check.name:<24} {check.found}"
    return f"{line}\n{'':6}{'':<24} fix: {check.fix}" if check.fix else line


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    arguments = build_parser().parse_args(argv)
    from transformers.utils import logging  # reads the environment when it is imported

    logging.disable_progress_bar()
    config = load_config(arguments.config)
    checks = []
    for check in examine(config, engines=not arguments.no_engines):
        checks.append(check)
        print(table(check), flush=True)
    status = exit_status(checks)
    failed = [check.name for check in checks if check.status == "FAIL"]
    print(f"\noff: {', '.join(failed)}" if failed else "\nall is well")
    if arguments.json:
        report = {
            "config": arguments.config,
            "version": __version__,
            "exit_status": status,
            "checks": [asdict(check) for check in checks],
        }
        arguments.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return status
