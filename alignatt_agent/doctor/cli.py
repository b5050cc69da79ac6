"""Check whether this machine can run a configuration, and print a fix for every problem.

Examples:
  check the embedded models, which need no download:
    alignatt doctor
  check another configuration:
    alignatt doctor --config default-low
  run only the checks that load no model:
    alignatt doctor --config default-low --no-engines
  measure how many speakers this machine can serve concurrently:
    alignatt doctor --config default-low --speakers 1 2 4 8
  compute whether the models fit on a GPU with 24 GiB, and with which shares (needs no GPU):
    alignatt doctor --config default-low --gpu 24

checks
  Static checks cover versions, torchvision, the device, checkpoints and their revisions, memory,
  the memory shares, and whether head sets and prompts fit the translation model.
  Engine checks start all engines, report the key layout, and compare attention rows with those of
  Transformers. Engine checks also compare drafts with and without rows, verify early stop, measure
  the time per token, and process one second of noise. On a GPU, the faster modes of the translation
  engine are verified (see `alignatt prove --help`).

exit status: 0 no check failed; 1 a check failed; 2 the arguments are invalid
"""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from alignatt_agent.cascade.runtime import Runtime
from alignatt_agent.config.agent_config import AgentConfig, ConfigError, load_config
from alignatt_agent.config.checkpoints import weight_bytes
from alignatt_agent.config.command_line import CONFIG_HELP, page
from alignatt_agent.config.head_sets import ANY
from alignatt_agent.config.models import AUTO
from alignatt_agent.doctor import config_checks, machine_checks
from alignatt_agent.doctor.checks import Check, exit_status
from alignatt_agent.engine.arguments import eager
from alignatt_agent.engine.memory_plan import plan
from alignatt_agent.machine.nvidia import GIB


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = argparse.ArgumentParser("alignatt doctor", **page(__doc__))
    add = parser.add_argument
    add("--config", default="micro-low", help=f"{CONFIG_HELP}; default %(default)s")
    add("--no-engines", action="store_true", help="run only the static checks, which load no model")
    text = "only print the memory shares of the engines on a GPU with this much memory"
    add("--gpu", type=float, metavar="GIB", help=text)
    text = "instead of the other engine checks, run N concurrent streams of 30 s"
    add("--speakers", nargs="+", type=int, metavar="N", help=text)
    text = "with --speakers: dev set that contains the recordings; default %(default)s"
    add("--devset", type=Path, default=Path("micro_models/devset"), metavar="DIR", help=text)
    text = "with --speakers: target languages of the streams, in turn; default: all with a head set"
    add("--target", nargs="+", metavar="CODE", help=text)
    return parser


def examine(
    config: AgentConfig, arguments: argparse.Namespace, runtime: Runtime
) -> Iterator[Check]:
    """Run all checks; the engine checks run only if the static checks pass."""
    static: list[Check] = []
    smaller = config.models.asr.smaller
    with suppress(ConfigError):  # reported as a check
        config = config.model_copy(update={"models": runtime.planned(config)})
    for check in _static(config, arguments.config, smaller):
        static.append(check)
        yield check
    # The templates of the models can be read only if the checkpoints are complete.
    if not exit_status(static):
        prompts = config_checks.check_asking(runtime.resolve(config))
        static.append(prompts)
        yield prompts
    if arguments.no_engines:
        return
    if exit_status(static):
        yield Check("engines", "warn", "not started", "first fix the failed checks above")
    elif arguments.speakers:
        yield from _examine_speakers(config, arguments, runtime)
    else:
        yield from _examine_engines(config, runtime)


def _examine_speakers(
    config: AgentConfig, arguments: argparse.Namespace, runtime: Runtime
) -> Iterator[Check]:
    from alignatt_agent.doctor import speakers

    targets = arguments.target or [code for code in config.head_sets if code != ANY]
    if not targets or min(arguments.speakers) < 1:
        raise ConfigError("expected at least 1 stream in --speakers and 1 target language")
    resolved = runtime.resolve(config, targets)
    yield from speakers.examine(
        runtime=runtime,
        resolved=resolved,
        devset=arguments.devset,
        targets=targets,
        counts=arguments.speakers,
    )


def _examine_engines(config: AgentConfig, runtime: Runtime) -> Iterator[Check]:
    from alignatt_agent.doctor import engine_checks, prove

    resolved = runtime.resolve(config)
    yield from engine_checks.examine(runtime, resolved)
    if eager("translation", resolved.checkpoints.translation) == AUTO:
        # The engine checks have already compared the eager mode with Transformers.
        yield from prove.examine(resolved, reference=False)


def _static(config: AgentConfig, name: str, smaller: str | None) -> Iterator[Check]:
    machine = machine_checks.look_around()
    yield from machine_checks.check_versions(machine)
    yield machine_checks.check_torchvision(machine)
    yield from machine_checks.check_device(machine)
    checks, located = config_checks.check_checkpoints(config, name, smaller)
    yield from checks
    weights = {role: weight_bytes(model) for role, model in located.items()}
    yield config_checks.check_memory(machine, config, weights)
    yield from config_checks.check_types(machine, config)
    shape = None
    if "translation" in located:
        shape = config_checks.decoder_shape(located["translation"])
    yield from config_checks.check_head_sets(config, shape)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    arguments = build_parser().parse_args(argv)
    from transformers.utils import logging  # the import reads the environment

    logging.disable_progress_bar()
    config = load_config(arguments.config)
    if arguments.gpu is not None:
        if not 0 < arguments.gpu < 10_000:
            raise ConfigError(f"--gpu: got {arguments.gpu:g}, expected GiB, such as 24")
        memory_plan = plan(config, arguments.gpu * GIB)
        print("\n".join(memory_plan.lines()))
        return 0 if memory_plan.shares else 1
    checks: list[Check] = []
    for check in examine(config, arguments, Runtime()):
        checks.append(check)
        print(check, flush=True)
    failed = [check.name for check in checks if check.status == "FAIL"]
    if failed:
        print(f"\nfailed: {', '.join(failed)}")
    else:
        print("\nno check failed")
    return exit_status(checks)
