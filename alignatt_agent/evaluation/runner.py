"""An evaluation run: planned and checked before a model is loaded, then streamed and scored."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alignatt_agent.agent import check_head_sets
from alignatt_agent.checkpoints import locate
from alignatt_agent.evaluation.agents import AgentChoice, choose_agent, parse_overrides
from alignatt_agent.evaluation.devset import DevSet, load_devset
from alignatt_agent.evaluation.files import RunFiles
from alignatt_agent.evaluation.report import table
from alignatt_agent.evaluation.scoring import (
    Scores,
    check_scorer,
    omnisteval_command,
    score,
    write_scores,
)
from alignatt_agent.evaluation.signature import sign
from alignatt_agent.languages import language

LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Plan:
    """A run that passed every check which needs no model.

    Attributes:
        choice: agent and configuration.
        devset: checked dev set.
        source: code of the spoken language.
        targets: codes of the target languages.
        output: folder of the run; each target has a folder below it.
    """

    choice: AgentChoice
    devset: DevSet
    source: str
    targets: tuple[str, ...]
    output: Path

    def files(self, target: str) -> RunFiles:
        """Files of one target."""
        return RunFiles(self.output / target)


def plan(
    agent: str,
    config: str | None,
    overrides: Sequence[str],
    source: str | None,
    targets: Sequence[str],
    devset: Path,
    output: Path,
) -> Plan:
    """Check configuration, head sets, checkpoints, dev set and scorer.

    Args:
        agent: entry point, dotted class or YAML path.
        config: name or path of a configuration.
        overrides: ``KEY=VALUE`` items.
        source: spoken language; ``None`` for the configured one.
        targets: target languages, codes or names.
        devset: directory of the dev set.
        output: folder to write to.

    Raises:
        ConfigError: the agent or its configuration is not valid.
        HeadSetError: a direction has no head set, or one that belongs to something else.
        CheckpointError: a checkpoint is missing.
        DevSetError: the dev set cannot be evaluated.
        LanguageError: a language is unknown.
        ScoringError: the scorer cannot run here.
    """
    codes = tuple(dict.fromkeys(language(name).code for name in targets))
    choice = choose_agent(agent, config, parse_overrides(overrides))
    spoken = language(source).code if source else None
    if choice.config is not None:
        choice = choice.with_source(spoken or choice.config.source_language)
        assert choice.config is not None
        spoken = choice.config.source_language
        for target in codes:
            check_head_sets(choice.config.for_target(target))
        locate(choice.config.models)
    checked = load_devset(devset, codes)
    check_scorer(codes)
    return Plan(choice, checked, spoken or "en", codes, output)


def evaluate(run: Plan) -> int:
    """Stream and score every target; print the table.

    Returns:
        Exit status: 0 when every target was scored, else 1.
    """
    devset = run.devset
    print(
        f"{run.choice.name}: {run.source} -> {' '.join(run.targets)}, {len(devset.talks)} talks, "
        f"{devset.seconds:.0f} s of speech, {devset.segments} segments; loading models",
        flush=True,
    )
    for target in run.targets:  # all at first: no score of an earlier run may outlive a failure
        run.files(target).prepare(run.choice, devset, target)
    scores: dict[str, Scores] = {}
    signature: dict[str, Any] = {}
    status = 0
    try:
        for target in run.targets:
            files = run.files(target)
            try:
                scores[target], signature = _evaluate_target(run, target)
            except Exception as error:
                print(
                    f"simulstream-eval: {target}: {type(error).__name__}: {error}\n"
                    f"  details: {files.log}",
                    file=sys.stderr,
                )
                status = 1
                break
    finally:
        shutdown = getattr(run.choice.cls, "shutdown", None)
        if shutdown is not None:
            shutdown()
    if scores:
        print(f"\n{table(scores, signature)}\n\nfiles: {run.output}/{{{','.join(scores)}}}/")
        print_commands(run)
    return status


def print_commands(run: Plan) -> None:
    """Print the official commands that do the same without ours."""
    print("\nthe same with the official commands:")
    for target in run.targets:
        files = run.files(target)
        print(f"  {files.inference_command(target, run.source)}")
        print(f"  {omnisteval_command(files, run.devset, target)}")


def _evaluate_target(run: Plan, target: str) -> tuple[Scores, dict[str, Any]]:
    # Importing the harness configures logging; not before it is needed.
    from alignatt_agent.evaluation.stream import run_stream

    files = run.files(target)
    with _logging_to(files.log):
        try:
            run_stream(run.choice, run.devset, files, target, run.source)
            scores = score(files, run.devset, target)
            signature = sign(run.choice, run.devset, target)
            write_scores(files, scores, signature)
        except Exception:
            LOGGER.exception("the run of %s failed", target)
            raise
    return scores, signature


@contextlib.contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    """Send all messages to a file and warnings to the terminal."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    file = logging.FileHandler(path, mode="w", encoding="utf-8")
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    terminal = logging.StreamHandler()
    terminal.setLevel(logging.WARNING)
    terminal.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    terminal.addFilter(lambda record: record.name != LOGGER.name)
    root.handlers[:] = [file, terminal]
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.handlers[:] = before
        root.setLevel(level)
        file.close()
