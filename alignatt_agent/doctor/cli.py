"""Check this machine against a configuration and name what to fix.

Examples:
  the embedded micro models, which need no download:
    alignatt doctor
  the configuration that you want to run, before a talk:
    alignatt doctor --config default-low --json doctor.json
  without loading a model:
    alignatt doctor --config default-low --no-engines
  how long would a chunk take on a device that is not here? counted in a run that is:
    alignatt doctor --config default-low --predict h200 --run outputs/dev-low/de
  does it fit on a card of 24 GiB, and with which shares? no card is needed:
    alignatt doctor --config default-24gb-low --gpu 24

checks
  versions, torchvision, device, checkpoints and their revisions, memory against the configured
  shares, head sets against the model, prompts against its template. With engines: all three
  start, key layout, attention rows against Transformers, same tokens with and without rows, early
  stop, ms per token, a second of noise through recogniser and aligner; on a CUDA device also
  PIECEWISE and FULL graphs at odd batch sizes (that part was never run so far: none was at hand).

exit status: 0 all is well, warnings aside; 1 something is off, its fix is named; 2 wrong usage
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from alignatt_agent import __version__
from alignatt_agent.command_line import page
from alignatt_agent.config.agent_config import AgentConfig, ConfigError, load_config
from alignatt_agent.config.resolved import resolve
from alignatt_agent.config.resources import known_resources
from alignatt_agent.doctor import (
    config_checks as doctor_config,
)
from alignatt_agent.doctor import (
    cost_model,
    memory_plan,
    workload,
)
from alignatt_agent.doctor import (
    machine_checks as doctor_machine,
)
from alignatt_agent.doctor.machine_checks import GIB, Check

RUN = Path("outputs/dev-low/de")
"""What ``make dev-low`` records."""

HERE = 0.0
"""Stands for the memory of the card that is here."""


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    names = ", ".join(known_resources("agent_configs", ".yaml"))
    parser = argparse.ArgumentParser("alignatt doctor", **page(__doc__))
    add = parser.add_argument
    text = f"name ({names}) or path of a YAML configuration; default %(default)s"
    add("--config", default="micro-low", help=text)
    add("--json", type=Path, metavar="FILE", help="also write the report there")
    add("--no-engines", action="store_true", help="static checks only: nothing is loaded")
    text = (
        "only compute what the engines take of a card of so much memory, and the shares to write; "
        "without a number: of the card that is here"
    )
    add("--gpu", nargs="?", const=HERE, type=float, metavar="GIB", help=text)
    devices = list(cost_model.DEVICES)
    text = "only compute what a chunk costs, and the shortest that keeps up, on (cpu: here): "
    add("--predict", choices=devices, metavar="DEVICE", help=text + ", ".join(devices))
    text = "with --predict: a run's target, whose steps are counted; default %(default)s"
    add("--run", type=Path, default=RUN, metavar="DIR", help=text)
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
    static += doctor_config.check_types(machine, config)
    static += doctor_config.check_graphs(machine, config)
    translation = located.get("translation")
    shape = doctor_config.decoder_shape(translation) if translation else None
    static += doctor_config.check_head_sets(config, shape)
    yield from static
    if not exit_status(static):
        static.append(doctor_config.check_asking(resolve(config)))
        yield static[-1]
    if not engines:
        return
    if exit_status(static):
        yield Check("engines", "warn", "not started", "fix what failed above first")
        return
    from alignatt_agent.doctor import engine_checks as doctor_engines
    from alignatt_agent.doctor import graph_checks as doctor_graphs

    resolved = resolve(config)
    yield from doctor_engines.examine(resolved)
    yield from doctor_graphs.examine(resolved)


def card(gib: float) -> float:
    """Return the memory of a card in bytes; ``HERE`` asks the one of this machine.

    Raises:
        ConfigError: there is none here, or the number makes no sense.
    """
    if gib == HERE:
        gpus = doctor_machine.look_around().gpus
        if not gpus:
            raise ConfigError(
                "--gpu: `nvidia-smi` finds no card here; say how much memory: --gpu 24"
            )
        return gpus[0].total
    if not 0 < gib < 10_000:
        raise ConfigError(f"--gpu: got {gib:g}, expected the memory of a card in GiB, such as 24")
    return gib * GIB


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
    if arguments.gpu is not None:
        found = memory_plan.plan(config, card(arguments.gpu))
        print("\n".join(found.lines()))
        return int(not found.shares or any(found.problems()))
    if arguments.predict:
        run = workload.read_workload(arguments.run)
        print("\n".join(cost_model.lines(config, run, arguments.predict)))
        return 0
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
