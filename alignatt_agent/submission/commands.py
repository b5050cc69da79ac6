"""The four commands of ``alignatt-submission``."""

from __future__ import annotations

import shlex
import sys
from argparse import Namespace
from pathlib import Path

from alignatt_agent.config.agent_config import ConfigError
from alignatt_agent.config.checkpoints import CheckpointError
from alignatt_agent.config.head_sets import HeadSetError
from alignatt_agent.config.languages import LanguageError
from alignatt_agent.submission.health import UnhealthyError, check_health


def build(arguments: Namespace) -> int:
    """Build a bundle and check it; returns the exit status."""
    from alignatt_agent.evaluation.devset import DevSetError
    from alignatt_agent.submission.build import BuildError, build_bundle, pair_runs
    from alignatt_agent.submission.image import ImageError

    try:
        runs = pair_runs(arguments.config, arguments.runs, arguments.regimes)
        files = build_bundle(
            runs,
            arguments.targets,
            arguments.output,
            arguments.devset,
            arguments.team,
            arguments.contact,
            progress=True,
        )
    except (
        BuildError,
        CheckpointError,
        ConfigError,
        DevSetError,
        ImageError,
        LanguageError,
    ) as error:
        return _refuse(error)
    print(f"built {arguments.output}: {files} files", flush=True)
    return 0 if arguments.no_check else _check(arguments.output, rescoring=True)


def check(arguments: Namespace) -> int:
    """Check a bundle; returns the exit status."""
    return _check(arguments.bundle, rescoring=not arguments.skip_scores)


def serve(arguments: Namespace) -> int:
    """Become the server of one system; returns only when something is missing."""
    from alignatt_agent.submission.server import become, server_command

    try:
        command = server_command(arguments.root, arguments.system, arguments.server_config)
    except (CheckpointError, ConfigError, HeadSetError) as error:
        return _refuse(error)
    print(shlex.join(command), flush=True)
    if not arguments.dry_run:
        become(command)
    return 0


def health(arguments: Namespace) -> int:
    """Ask a server for its health; returns the exit status."""
    try:
        check_health(arguments.hostname, arguments.port)
    except UnhealthyError as error:
        print(f"alignatt-submission: {error}", file=sys.stderr)
        return 1
    print(f"{arguments.hostname}:{arguments.port} accepts audio")
    return 0


def _check(root: Path, rescoring: bool) -> int:
    from alignatt_agent.submission.check import check_bundle
    from alignatt_agent.submission.facts import FactsError
    from alignatt_agent.submission.report import report_text

    try:
        report = check_bundle(root, rescoring, progress=True)
    except FactsError as error:
        return _refuse(error)
    print(report_text(root, report))
    return 1 if report.findings else 0


def _refuse(error: Exception) -> int:
    print(f"alignatt-submission: {error}", file=sys.stderr)
    return 2
