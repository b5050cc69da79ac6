"""From planned runs to scores and reports."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from alignatt_agent.cluster.connection import ClusterOptions
from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.check_log import refuse
from alignatt_agent.evaluation.comet import CometError, checkpoint, comet_sections
from alignatt_agent.evaluation.log import parse_log
from alignatt_agent.evaluation.metrics import measure
from alignatt_agent.evaluation.plan import EvalRun
from alignatt_agent.evaluation.report import html_page, markdown, score_table
from alignatt_agent.evaluation.score import (
    Ceiling,
    Result,
    read_ceilings,
    read_result,
    score,
    write_result,
)
from alignatt_agent.evaluation.stream import prepare, stream_all
from alignatt_agent.evaluation.subwords import joined_pieces
from alignatt_agent.evaluation.talk_jobs import stream_on_cluster
from alignatt_agent.types import AlignAttError


def evaluate(
    runs: Sequence[EvalRun],
    root: Path,
    resume: bool = False,
    paced: bool = False,
    jobs: int = 1,
    comet: str | None = None,
    comet_python: Path | None = None,
    offline: Path | None = None,
    cluster: ClusterOptions | None = None,
) -> int:
    """Stream what has no log yet, score everything, write the reports and print the table."""
    for note in dict.fromkeys(note for run in runs for note in run.devset.notes):
        print(f"note: {note}", file=sys.stderr)
    ceilings = read_ceilings(offline, [run.signature for run in runs]) if offline else []
    waiting = [run for run in runs if run.log is None and not (resume and run.streamed)]
    for run in runs:
        if run in waiting:  # all at first: no score of an earlier run may outlive a failure
            prepare(run, keep_talks=resume and cluster is not None)
        elif run.log is None:
            state = "scored" if run.scored else "streamed"
            print(f"{run.label}: {state} before, with an equal signature")
    if cluster is not None and waiting:
        complete = stream_on_cluster(waiting, cluster, paced)
    else:
        complete = stream_all(waiting, paced)
    done = [run for run in runs if run.log is not None or run.files.finished.is_file()]
    scored = score_all(done, jobs)
    complete = complete and len(scored) == len(runs)
    if comet and scored:
        try:
            scored = add_comet(scored, comet, comet_python)
        except CometError as error:
            print(f"simulstream-eval: COMET: {error}", file=sys.stderr)
            complete = False
    if scored:
        write_reports(scored, ceilings, root)
        print_commands(runs)
    return 0 if complete else 1


def print_commands(runs: Sequence[EvalRun]) -> None:
    """Print the official commands that do the same without ours."""
    print("\nthe same with the official commands:")
    for command in (command for run in runs for command in run.commands):
        print(f"  {command}")


def score_all(
    runs: Sequence[EvalRun], jobs: int = 1, only_official: bool = False
) -> list[tuple[EvalRun, Result]]:
    """Score ``jobs`` runs at a time, each in processes of its own; failures are printed."""
    found: list[tuple[EvalRun, Result]] = []
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        results = [pool.submit(score_run, run, only_official) for run in runs]
        pairs = zip(runs, results, strict=True)
        for run, result in tqdm(pairs, total=len(runs), desc="scoring", leave=False):
            try:
                found.append((run, result.result()))
            except (AlignAttError, ValueError) as error:
                print(f"simulstream-eval: {run.label}: {error}", file=sys.stderr)
    return found


def score_run(run: EvalRun, only_official: bool = False) -> Result:
    """Score a run, unless it is scored; ``only_official`` leaves out what ``metrics`` measures."""
    if run.scored:
        return read_result(run.files.folder)
    log = run.log or parse_log(run.files.metrics)
    joined = joined_pieces(run.files.config)
    for warning in refuse(log, run.devset, language(run.target).latency_unit, joined):
        print(f"simulstream-eval: {run.label}: warning: {warning}", file=sys.stderr)
    scores = score(run.files, run.devset, run.target, log)
    measured = {} if only_official else measure(run.files, run.devset, run.target, scores, log)
    result = Result(run.name, run.target, scores, measured, run.recorded)
    write_result(result, run.files)
    return result


def add_comet(
    scored: Sequence[tuple[EvalRun, Result]], model: str, python: Path | None
) -> list[tuple[EvalRun, Result]]:
    """Score runs that lack a score of the model, in one process, and write ``scores.json``."""
    name = checkpoint(model)
    waiting = [run for run, item in scored if item.measured.get("comet", {}).get("model") != name]
    sections = iter(comet_sections(waiting, model, python))
    found = []
    for run, result in scored:
        if run in waiting:
            result = replace(result, measured={**result.measured, "comet": next(sections)})
            write_result(result, run.files)
        found.append((run, result))
    return found


def write_reports(
    scored: Sequence[tuple[EvalRun, Result]], ceilings: Sequence[Ceiling], root: Path
) -> None:
    """Write ``report.md`` and ``report.html`` and print the table."""
    commands = [command for run, _ in scored for command in run.commands]
    notes = list(dict.fromkeys(note for run, _ in scored for note in run.devset.notes))
    results = [result for _, result in scored]
    text = markdown(results, commands, notes, ceilings)
    (root / "report.md").write_text(text, encoding="utf-8")
    files = [(result, run.files) for run, result in scored]
    (root / "report.html").write_text(html_page(files, text, ceilings), encoding="utf-8")
    print(f"\n{score_table(results, ceilings)}\n")
    print(f"reports: {root / 'report.html'}, {root / 'report.md'}")
