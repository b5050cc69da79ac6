"""Evaluation runs, streamed and scored."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from alignatt_agent.cluster.connection import ClusterOptions
from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.check_log import refuse
from alignatt_agent.evaluation.comet import CometError, checkpoint, comet_sections
from alignatt_agent.evaluation.log import parse_log
from alignatt_agent.evaluation.metrics import measure
from alignatt_agent.evaluation.plan import Run
from alignatt_agent.evaluation.report import markdown, page, table
from alignatt_agent.evaluation.score import (
    Ceiling,
    Result,
    read_ceilings,
    read_result,
    score,
    write_result,
)
from alignatt_agent.evaluation.subwords import joined_pieces
from alignatt_agent.types import AlignAttError

LOGGER = logging.getLogger(__name__)


def evaluate(
    runs: Sequence[Run],
    root: Path,
    resume: bool = False,
    paced: bool = False,
    jobs: int = 1,
    comet: str | None = None,
    comet_python: Path | None = None,
    offline: Path | None = None,
    cluster: ClusterOptions | None = None,
) -> int:
    """Stream what has no log yet, score everything, write the reports and print the table.

    Args:
        runs: what was planned.
        root: folder of the reports.
        resume: leave finished runs with an equal signature as they are.
        paced: deliver the audio by the clock.
        jobs: scoring processes side by side.
        comet: COMET model, if any.
        comet_python: interpreter of the environment with COMET.
        offline: output of ``alignatt offline`` whose rows are shown, too.
        cluster: where to stream; ``None`` for this process.

    Returns:
        Exit status: 0 when every run was scored, else 1.

    Raises:
        ScoringError: the off-line rows do not belong to these runs; nothing was started.
    """
    for note in dict.fromkeys(note for run in runs for note in run.devset.notes):
        print(f"note: {note}", file=sys.stderr)
    ceilings = read_ceilings(offline, [run.signature for run in runs]) if offline else []
    waiting = [run for run in runs if run.log is None and not (resume and run.streamed)]
    for run in runs:
        if run in waiting:  # all at first: no score of an earlier run may outlive a failure
            prepare(run, resume and cluster is not None)
        elif run.log is None:
            state = "scored" if run.scored else "streamed"
            print(f"{run.label}: {state} before, with an equal signature")
    if cluster is not None and waiting:
        from alignatt_agent.evaluation import on_ray

        complete = on_ray.stream_all(waiting, cluster, paced)
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


def print_commands(runs: Sequence[Run]) -> None:
    """Print the official commands that do the same without ours."""
    print("\nthe same with the official commands:")
    for command in (command for run in runs for command in run.commands):
        print(f"  {command}")


def prepare(run: Run, goes_on: bool = False) -> None:
    """Remove what an earlier stream wrote and write the inputs of this one.

    Args:
        run: what is going to be streamed.
        goes_on: leave the talks that a cluster has streamed.
    """
    assert run.choice is not None
    run.files.clean({run.files.parts} if goes_on else set())
    run.files.config.write_text(run.choice.resolved_yaml(run.target), encoding="utf-8")
    wavs = "".join(f"{talk.wav}\n" for talk in run.devset.talks)
    run.files.wavs.write_text(wavs, encoding="utf-8")


def stream_all(runs: Sequence[Run], paced: bool = False) -> bool:
    """Stream prepared runs with engines that are loaded once; the first failure ends it.

    Returns:
        Whether all were streamed to their end.
    """
    if not runs:
        return True
    announce(runs)
    try:
        for run in runs:
            try:
                stream(run, paced)
            except Exception as error:
                report_failure(run, error)
                return False
    finally:
        for cls in dict.fromkeys(run.choice.cls for run in runs if run.choice):
            getattr(cls, "shutdown", lambda: None)()
    return True


def announce(runs: Sequence[Run]) -> None:
    """Say what is going to be streamed."""
    devset = runs[0].devset
    print(
        f"{', '.join(dict.fromkeys(run.name for run in runs))}: {runs[0].source} -> "
        f"{' '.join(dict.fromkeys(run.target for run in runs))}, {len(devset.talks)} talks, "
        f"{devset.seconds:.0f} s of speech, {len(devset.segments)} segments; loading models",
        flush=True,
    )


def report_failure(run: Run, error: BaseException) -> None:
    """Say why a run is not complete."""
    print(
        f"simulstream-eval: {run.label}: {type(error).__name__}: {error}\n"
        f"  details: {run.files.log}",
        file=sys.stderr,
    )


def stream(run: Run, paced: bool = False, traced: bool = False) -> None:
    """Stream one prepared run; its signature is written when its last talk was streamed.

    Args:
        run: what to stream.
        paced: deliver the audio by the clock.
        traced: see ``harness.run_stream``.
    """
    # Importing the harness configures logging; not before it is needed.
    from alignatt_agent.evaluation.harness import run_stream

    assert run.choice is not None
    where = run.choice, run.devset, run.files, run.target, run.source
    with logging_to(run.files.log):
        try:
            run_stream(*where, paced, traced)
        except Exception:
            LOGGER.exception("the run of %s failed", run.label)
            raise
    finish(run, run.signature)


def finish(run: Run, signature: Mapping[str, Any]) -> None:
    """Note that a run was streamed to its end."""
    text = json.dumps(signature, indent=2, ensure_ascii=False)
    run.files.finished.write_text(text + "\n", encoding="utf-8")


def score_all(runs: Sequence[Run], jobs: int = 1) -> list[tuple[Run, Result]]:
    """Score runs side by side, each in processes of its own; failures are printed.

    Args:
        runs: streamed runs.
        jobs: how many at a time.

    Returns:
        The runs that were scored, in order.
    """
    found: list[tuple[Run, Result]] = []
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        results = [pool.submit(score_run, run) for run in runs]
        pairs = zip(runs, results, strict=True)
        for run, result in tqdm(pairs, total=len(runs), desc="scoring", leave=False):
            try:
                found.append((run, result.result()))
            except (AlignAttError, ValueError) as error:
                print(f"simulstream-eval: {run.label}: {error}", file=sys.stderr)
    return found


def score_run(run: Run) -> Result:
    """Score the log of a run and write ``scores.json``; what was scored before is kept.

    Raises:
        LogError: the log cannot be scored.
        ScoringError: a scorer failed.
    """
    if run.scored:
        return read_result(run.files.folder)
    log = run.log or parse_log(run.files.metrics)
    unit, joined = language(run.target).latency_unit, joined_pieces(run.scorer_settings())
    for warning in refuse(log, run.devset, unit, joined):
        print(f"simulstream-eval: {run.label}: warning: {warning}", file=sys.stderr)
    scores = score(run.files, run.devset, run.target, log)
    measured = measure(run.files, run.devset, run.target, scores, log)
    result = Result(run.name, run.target, scores, measured, run.recorded)
    write_result(result, run.files)
    return result


def add_comet(
    scored: Sequence[tuple[Run, Result]], model: str, python: Path | None
) -> list[tuple[Run, Result]]:
    """Score all runs with one process and write the scores into their ``scores.json``.

    Runs that have a score of the same model keep it.

    Raises:
        CometError: environment, model or transcript is missing.
    """
    name = checkpoint(model)
    waiting = [run for run, item in scored if item.measured.get("comet", {}).get("model") != name]
    runs = [(run.files, run.devset, run.source, run.target) for run in waiting]
    sections = iter(comet_sections(runs, model, python))
    found = []
    for run, result in scored:
        if run in waiting:
            result = replace(result, measured={**result.measured, "comet": next(sections)})
            write_result(result, run.files)
        found.append((run, result))
    return found


def write_reports(
    scored: Sequence[tuple[Run, Result]], ceilings: Sequence[Ceiling], root: Path
) -> None:
    """Write ``report.md`` and ``report.html`` and print the table."""
    commands = [command for run, _ in scored for command in run.commands]
    notes = list(dict.fromkeys(note for run, _ in scored for note in run.devset.notes))
    results = [result for _, result in scored]
    text = markdown(results, commands, notes, ceilings)
    (root / "report.md").write_text(text, encoding="utf-8")
    files = [(result, run.files) for run, result in scored]
    (root / "report.html").write_text(page(files, text, ceilings), encoding="utf-8")
    print(f"\n{table(results, ceilings)}\n\nreports: {root / 'report.html'}, {root / 'report.md'}")


@contextlib.contextmanager
def logging_to(path: Path) -> Iterator[None]:
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
