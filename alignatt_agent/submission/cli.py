"""``alignatt-submission``: build, check and serve what a team hands in."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from alignatt_agent import __version__
from alignatt_agent.evaluation.latency import REGIMES
from alignatt_agent.submission.server_config import PORT

EPILOG = """\
examples
  score the dev set in both regimes, then build the bundle and check it:
    simulstream-eval --config micro-low --target de it zh \\
        --devset micro_models/devset --output outputs/dev-low
    simulstream-eval --config micro-high --target de it zh \\
        --devset micro_models/devset --output outputs/dev-high
    alignatt-submission build --config micro-low micro-high --targets de it zh \\
        --runs outputs/dev-low outputs/dev-high --output outputs/submission

  check a bundle that somebody sent, scores included:
    alignatt-submission check outputs/submission

  serve one system of it without Docker, exactly as the image does:
    alignatt-submission serve low/en-de --root outputs/submission/image
    alignatt-submission health

exit status: 0 fine; 1 a violation, or not healthy; 2 nothing was done
"""


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = argparse.ArgumentParser(
        prog="alignatt-submission",
        description="Build the bundle that a team hands in for the IWSLT simultaneous task (image, "
        "settings, dev logs, signed scores, checksums), check one, serve one.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_build(commands.add_parser("build", help="build a bundle from scored runs and check it"))
    _add_check(commands.add_parser("check", help="verify a bundle, scoring its logs again"))
    _add_serve(commands.add_parser("serve", help="entry point of the image: serve one system"))
    _add_health(commands.add_parser("health", help="ask a server whether it accepts audio"))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    arguments = build_parser().parse_args(argv)
    # Imported on demand: the image asks for its health every few seconds.
    from alignatt_agent.submission import commands

    run = {
        "build": commands.build,
        "check": commands.check,
        "serve": commands.serve,
        "health": commands.health,
    }[arguments.command]
    return run(arguments)


def _add_build(parser: argparse.ArgumentParser) -> None:
    parser.description = "Build a bundle from runs of simulstream-eval and check it."
    parser.add_argument(
        "--config", nargs="+", required=True, help="configurations, one for each regime"
    )
    parser.add_argument(
        "--runs",
        nargs="+",
        type=Path,
        required=True,
        metavar="DIR",
        help="output folders of simulstream-eval, one for each configuration, in the same order",
    )
    parser.add_argument(
        "--regimes",
        nargs="+",
        choices=list(REGIMES),
        help=f"regime of each configuration ({', '.join(map(str, REGIMES.values()))} LongYAAL CU); "
        "default: the last part of its name",
    )
    parser.add_argument(
        "--targets", nargs="+", required=True, metavar="LANG", help="target languages"
    )
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="the bundle")
    parser.add_argument(
        "--devset", type=Path, metavar="DIR", help="dev set; default: where the recordings lie"
    )
    parser.add_argument("--team", default="alignatt", help="name of the team; default %(default)s")
    parser.add_argument(
        "--contact",
        default="(fill in: --contact)",
        help="whom the organisers write to",
    )
    parser.add_argument("--no-check", action="store_true", help="build only")


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Verify a bundle: checksums, files, logs (all talks, one run, append-only, units), "
        "language of the output, versions, scores (computed again), regimes, image."
    )
    parser.add_argument("bundle", type=Path, metavar="DIR", help="the bundle")
    parser.add_argument(
        "--skip-scores",
        action="store_true",
        help="do not score the logs again; takes seconds, and believes scores.json",
    )


def _add_serve(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Check weights, configuration and port, then become Simulstream's "
        "http_speech_processor_server."
    )
    parser.add_argument("system", nargs="?", metavar="REGIME/DIRECTION", help="e.g. low/en-de")
    parser.add_argument(
        "--root",
        type=Path,
        default=Path("image"),
        metavar="DIR",
        help="folder with server.yaml and systems/; default %(default)s",
    )
    parser.add_argument(
        "--server-config", type=Path, metavar="YAML", help="another server configuration"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="check everything and print the command"
    )


def _add_health(parser: argparse.ArgumentParser) -> None:
    parser.description = "Ask a server whether it accepts audio; takes no processor from a client."
    parser.add_argument("--hostname", default="127.0.0.1", help="default %(default)s")
    parser.add_argument("--port", type=int, default=PORT, help="default %(default)s")


if __name__ == "__main__":
    sys.exit(main())
