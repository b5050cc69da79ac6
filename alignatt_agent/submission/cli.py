r"""Build, check and serve a bundle for submission to the IWSLT simultaneous task.

A bundle contains the build context of an image, settings, dev logs, signed scores and checksums.
The image's HTTP server does not receive the name of a talk. Therefore runs that use a context for
each talk are rejected; --set speech.context=[] disables the contexts of a dev set.

Examples:
  score the dev set in both regimes, then build the bundle and check it:
    simulstream-eval --config micro-low --target de it zh --set speech.context=[] \
        --devset micro_models/devset --output outputs/dev-low
    simulstream-eval --config micro-high --target de it zh --set speech.context=[] \
        --devset micro_models/devset --output outputs/dev-high
    alignatt submission build --config micro-low micro-high --target de it zh \
        --runs outputs/dev-low outputs/dev-high --devset micro_models/devset \
        --output outputs/submission

  For an example of each command: alignatt submission COMMAND --help

exit status: 0 success; 1 violation found, or server not healthy; 2 failure before the start
"""

import argparse
import shlex
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from alignatt_agent.config.command_line import page
from alignatt_agent.evaluation.latency import REGIMES
from alignatt_agent.submission.bundle import PORT


def build_parser() -> argparse.ArgumentParser:
    """Build the argument parser."""
    parser = argparse.ArgumentParser("alignatt submission", **page(__doc__))
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(example: str, run: Callable[[Namespace], int], summary: str) -> Callable[..., Any]:
        name = example.partition(" ")[0]
        text = f"{fill(summary, 90)}\n\nexample:\n  alignatt submission {example}"
        added = commands.add_parser(name, help=summary, **page(text))
        added.set_defaults(func=run)
        return added.add_argument

    folder: dict[str, Any] = {"type": Path, "metavar": "DIR"}
    ranges = ", ".join(map(str, REGIMES.values()))
    example = (
        "build --config micro-low --target de --runs outputs/dev-low --devset micro_models/devset "
        "--output outputs/low"
    )
    add = command(example, _build, "build a bundle from runs of simulstream-eval, and check it")
    text = f"one configuration per regime; each name ends in its regime: {ranges} LongYAAL CU"
    add("--config", nargs="+", required=True, help=text)
    text = "output folders of simulstream-eval, one per configuration, in the same order"
    add("--runs", nargs="+", required=True, help=text, **folder)
    add("--target", nargs="+", required=True, metavar="CODE", help="target languages")
    add("--output", required=True, help="the bundle", **folder)
    add("--devset", required=True, help="the dev set of the runs", **folder)
    add("--team", default="alignatt", help="name of the team; default %(default)s")
    add("--contact", default="(fill in: --contact)", help="contact address for the organizers")

    text = (
        "check a bundle: checksums, files, logs (all talks, one run, append-only, units), "
        "language of the output, versions, scores (recomputed), regimes, image"
    )
    add = command("check outputs/submission", _check, text)
    add("bundle", help="the bundle", **folder)
    text = "trust scores.json instead of scoring the logs again; the check then takes seconds"
    add("--skip-scores", action="store_true", help=text)

    text = (
        "serve one system (entry point of the image): check weights, configuration and port, then "
        "run Simulstream's http_speech_processor_server"
    )
    add = command("serve low/en-de --root outputs/submission/image", _serve, text)
    add("system", nargs="?", metavar="REGIME/DIRECTION", help="system to serve, e.g. low/en-de")
    text = "folder that contains server.yaml and systems/; default %(default)s"
    add("--root", default=Path("image"), help=text, **folder)
    add("--dry-run", action="store_true", help="check everything and print the command")

    text = "check whether a server on this machine accepts audio, without occupying a processor"
    add = command("health --port 8080", _health, text)
    add("--port", type=int, default=PORT, help="port of the server; default %(default)s")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status."""
    arguments = build_parser().parse_args(argv)
    run: Callable[[Namespace], int] = arguments.func
    return run(arguments)


# Commands import modules on demand because the image checks its health every few seconds.


def _build(arguments: Namespace) -> int:
    from alignatt_agent.submission.build import build_bundle, pair_runs

    runs = pair_runs(arguments.config, arguments.runs)
    files = build_bundle(
        runs=runs,
        targets=arguments.target,
        output=arguments.output,
        devset=arguments.devset,
        team=arguments.team,
        contact=arguments.contact,
    )
    print(f"built {arguments.output} with {files} files", flush=True)
    return _check(Namespace(bundle=arguments.output, skip_scores=False))


def _check(arguments: Namespace) -> int:
    from alignatt_agent.submission.check import check_bundle

    report = check_bundle(arguments.bundle, not arguments.skip_scores)
    print(report.text(arguments.bundle))
    return 1 if report.findings else 0


def _serve(arguments: Namespace) -> int:
    """Replace this process with the server of one system."""
    from alignatt_agent.submission.server import become, server_command

    command = server_command(arguments.root, arguments.system)
    print(shlex.join(command), flush=True)
    if not arguments.dry_run:
        become(command)
    return 0


def _health(arguments: Namespace) -> int:
    from alignatt_agent.submission.server import check_health

    check_health(arguments.port)
    print(f"127.0.0.1:{arguments.port} accepts audio")
    return 0
