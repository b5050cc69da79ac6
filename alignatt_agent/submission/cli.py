r"""Build the bundle that a team hands in for the IWSLT simultaneous task, check one, serve one.

It holds an image, settings, dev logs, signed scores and checksums.

Examples:
  score the dev set in both regimes, then build the bundle and check it:
    simulstream-eval --config micro-low --target de it zh \
        --devset micro_models/devset --output outputs/dev-low
    simulstream-eval --config micro-high --target de it zh \
        --devset micro_models/devset --output outputs/dev-high
    alignatt submission build --config micro-low micro-high --target de it zh \
        --runs outputs/dev-low outputs/dev-high --output outputs/submission

  check a bundle that somebody sent, scores included:
    alignatt submission check outputs/submission

  serve one system of it without Docker, exactly as the image does:
    alignatt submission serve low/en-de --root outputs/submission/image
    alignatt submission health

exit status: 0 fine; 1 a violation, or not healthy; 2 nothing was done
"""

import argparse
import shlex
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from alignatt_agent.config.command_line import page, refuse_renamed
from alignatt_agent.evaluation.latency import REGIMES
from alignatt_agent.submission.bundle import PORT


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = argparse.ArgumentParser("alignatt submission", **page(__doc__))
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[Namespace], int], summary: str) -> Callable[..., Any]:
        added = commands.add_parser(name, help=summary, description=summary)
        added.set_defaults(func=run)
        refuse_renamed(added, {"--targets": "--target"} if name == "build" else {})
        return added.add_argument

    folder: dict[str, Any] = {"type": Path, "metavar": "DIR"}
    ranges = ", ".join(map(str, REGIMES.values()))
    add = command("build", _build, "build a bundle from runs of simulstream-eval, and check it")
    add("--config", nargs="+", required=True, help="configurations, one for each regime")
    text = "output folders of simulstream-eval, one for each configuration, in the same order"
    add("--runs", nargs="+", required=True, help=text, **folder)
    text = f"of each configuration ({ranges} LongYAAL CU); default: the last part of its name"
    add("--regimes", nargs="+", choices=list(REGIMES), help=text)
    add("--target", nargs="+", required=True, metavar="CODE", help="target languages")
    add("--output", required=True, help="the bundle", **folder)
    add("--devset", help="dev set; default: where the recordings lie", **folder)
    add("--team", default="alignatt", help="name of the team; default %(default)s")
    add("--contact", default="(fill in: --contact)", help="address for questions of the organizers")
    add("--no-check", action="store_true", help="build only")

    text = (
        "verify a bundle: checksums, files, logs (all talks, one run, append-only, units), "
        "language of the output, versions, scores (computed again), regimes, image"
    )
    add = command("check", lambda given: _report(given.bundle, not given.skip_scores), text)
    add("bundle", help="the bundle", **folder)
    text = "do not score the logs again; takes seconds, and believes scores.json"
    add("--skip-scores", action="store_true", help=text)

    text = (
        "entry point of the image: check weights, configuration and port of one system, then "
        "become Simulstream's http_speech_processor_server"
    )
    add = command("serve", _serve, text)
    add("system", nargs="?", metavar="REGIME/DIRECTION", help="e.g. low/en-de")
    text = "folder with server.yaml and systems/; default %(default)s"
    add("--root", default=Path("image"), help=text, **folder)
    add("--server-config", type=Path, metavar="YAML", help="another server configuration")
    add("--dry-run", action="store_true", help="check everything and print the command")

    text = "ask a server whether it accepts audio; takes no processor from a client"
    add = command("health", _health, text)
    add("--hostname", default="127.0.0.1", help="default %(default)s")
    add("--port", type=int, default=PORT, help="default %(default)s")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    arguments = build_parser().parse_args(argv)
    run: Callable[[Namespace], int] = arguments.func
    return run(arguments)


# What a command needs is imported on demand: the image asks for its health every few seconds.


def _build(arguments: Namespace) -> int:
    from alignatt_agent.submission.build import build_bundle, pair_runs

    runs = pair_runs(arguments.config, arguments.runs, arguments.regimes)
    files = build_bundle(
        runs,
        arguments.target,
        arguments.output,
        arguments.devset,
        arguments.team,
        arguments.contact,
    )
    print(f"built {arguments.output}: {files} files", flush=True)
    return 0 if arguments.no_check else _report(arguments.output, rescoring=True)


def _report(root: Path, rescoring: bool) -> int:
    from alignatt_agent.submission.check import check_bundle

    report = check_bundle(root, rescoring)
    print(report.text(root))
    return 1 if report.findings else 0


def _serve(arguments: Namespace) -> int:
    """Become the server of one system; returns only when something is missing."""
    from alignatt_agent.submission.server import become, server_command

    command = server_command(arguments.root, arguments.system, arguments.server_config)
    print(shlex.join(command), flush=True)
    if not arguments.dry_run:
        become(command)
    return 0


def _health(arguments: Namespace) -> int:
    from alignatt_agent.submission.server import check_health

    check_health(arguments.hostname, arguments.port)
    print(f"{arguments.hostname}:{arguments.port} accepts audio")
    return 0
