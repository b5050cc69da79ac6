"""From finished streams to scores and reports."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.check_log import refuse
from alignatt_agent.evaluation.comet import CometError, add_comet
from alignatt_agent.evaluation.devset import DevSet
from alignatt_agent.evaluation.log import LogError, parse_log
from alignatt_agent.evaluation.metrics import measure
from alignatt_agent.evaluation.report import Source, markdown, page, table
from alignatt_agent.evaluation.resolve import AgentChoice
from alignatt_agent.evaluation.results import (
    Ceiling,
    Result,
    ScoringError,
    read_ceilings,
    read_result,
    write_result,
)
from alignatt_agent.evaluation.run_files import RunFiles
from alignatt_agent.evaluation.score import omnisteval_command, score


@dataclass(frozen=True, slots=True)
class Options:
    """How a call runs and scores.

    Attributes:
        resume: leave finished runs with an equal signature as they are.
        paced: deliver the audio by the clock.
        jobs: scoring processes side by side.
        comet: COMET model, if any.
        comet_python: interpreter of the environment with COMET.
        offline: output of ``alignatt-offline`` whose rows are shown, too.
    """

    resume: bool = False
    paced: bool = False
    jobs: int = 1
    comet: str | None = None
    comet_python: Path | None = None
    offline: Path | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """One target of one configuration.

    Attributes:
        choice: agent and configuration; ``None`` for a log that was there before.
        devset: what is streamed.
        source: code of the spoken language.
        target: code of the language of the output.
        files: where its files are.
        signature: what its scores depend on.
    """

    choice: AgentChoice
    devset: DevSet
    source: str
    target: str
    files: RunFiles
    signature: dict[str, Any]

    @property
    def label(self) -> str:
        """Name for messages."""
        return f"{self.choice.name} {self.target}"


def finish(jobs: Sequence[Job], options: Options, root: Path) -> int:
    """Score finished streams, write the reports below ``root`` and print the table.

    Returns:
        Exit status: 0 when everything was scored, else 1.
    """
    results, status = score_all(
        [(job.label, lambda job=job: _scored(job)) for job in jobs],  # type: ignore[misc]
        options.jobs,
    )
    scored = [result for result in results if result is not None]
    if options.comet and scored:
        by_folder = {(job.choice.name, job.target): job for job in jobs}
        try:
            scored = add_comet(
                [(result, by_folder[result.config, result.target]) for result in scored],
                options.comet,
                options.comet_python,
            )
        except CometError as error:
            print(f"simulstream-eval: COMET: {error}", file=sys.stderr)
            status = 1
    if scored:
        commands = [
            command
            for job in jobs
            for command in (
                job.files.inference_command(job.target, job.source),
                omnisteval_command(job.files, job.devset, job.target),
            )
        ]
        notes = list(dict.fromkeys(note for job in jobs for note in job.devset.notes))
        folders = {(job.choice.name, job.target): job.files.folder for job in jobs}
        sources = [Source(item, folders[item.config, item.target]) for item in scored]
        signatures = [item.signature for item in scored]
        ceilings = read_ceilings(options.offline, signatures) if options.offline else []
        write_reports(root, sources, commands, notes, ceilings)
        print(
            f"\n{table(scored, ceilings)}\n\nreports: {root / 'report.html'}, {root / 'report.md'}"
        )
    return status


def write_reports(
    root: Path,
    sources: Sequence[Source],
    commands: Sequence[str],
    notes: Sequence[str],
    ceilings: Sequence[Ceiling] = (),
) -> None:
    """Write ``report.md`` and ``report.html``."""
    text = markdown([source.result for source in sources], commands, notes, ceilings)
    (root / "report.md").write_text(text, encoding="utf-8")
    (root / "report.html").write_text(page(sources, text, ceilings), encoding="utf-8")


def score_all(
    tasks: Sequence[tuple[str, Callable[[], Result]]], jobs: int
) -> tuple[list[Result | None], int]:
    """Run scoring tasks side by side; each starts processes of its own.

    Returns:
        Results in order, ``None`` for a task that failed, and the exit status.
    """
    status = 0
    results: list[Result | None] = []
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        futures = [pool.submit(task) for _, task in tasks]
        bar = tqdm(zip(tasks, futures, strict=True), total=len(tasks), desc="scoring", leave=False)
        for (label, _), future in bar:
            try:
                results.append(future.result())
            except (LogError, ScoringError, ValueError) as error:
                print(f"simulstream-eval: {label}: {error}", file=sys.stderr)
                results.append(None)
                status = 1
    return results, status


def score_run(
    files: RunFiles, devset: DevSet, target: str, name: str, signature: dict[str, Any]
) -> Result:
    """Score the log of a run and write ``scores.json``.

    Raises:
        LogError: the log cannot be scored.
        ScoringError: a scorer failed.
    """
    log = parse_log(files.metrics)
    for warning in refuse(log, devset, language(target).latency_unit):
        print(f"simulstream-eval: {name} {target}: warning: {warning}", file=sys.stderr)
    scores = score(files, devset, target, log)
    measured = measure(files, devset, target, scores, log)
    result = Result(name, target, scores, measured, signature)
    write_result(result, files)
    return result


def _scored(job: Job) -> Result:
    if job.files.scores.is_file():
        found = read_result(job.files.folder)
        if found.signature == job.signature:
            return found
    return score_run(job.files, job.devset, job.target, job.choice.name, job.signature)
