"""Score runs, compute further measures, and write reports."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from omnisteval.data import Instance
from tqdm import tqdm

from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.check_log import refuse
from alignatt_agent.evaluation.comet import checkpoint, comet_sections
from alignatt_agent.evaluation.delays import log_notes
from alignatt_agent.evaluation.devset import Span
from alignatt_agent.evaluation.latency import (
    paced_latency,
    read_instances,
    recorded_times,
    regime_of,
    yaal_ms,
)
from alignatt_agent.evaluation.log import Log, parse_log
from alignatt_agent.evaluation.plan import EvalRun
from alignatt_agent.evaluation.report import Ceilings, html_page, markdown, score_table
from alignatt_agent.evaluation.score import (
    Result,
    Scores,
    read_result,
    score,
    stream_laal,
    write_result,
)
from alignatt_agent.evaluation.subwords import joined_pieces
from alignatt_agent.evaluation.trace import TalkStep, read_steps
from alignatt_agent.evaluation.wer import streamed_transcripts, word_error_rate
from alignatt_agent.types import AlignAttError
from alignatt_agent.types.stopwatch import STAGES


def score_all(
    runs: Sequence[EvalRun], jobs: int = 1, only_official: bool = False
) -> list[tuple[EvalRun, Result]]:
    """Score ``jobs`` runs at a time, each in separate processes; failures are printed."""
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
    """Score a run if it has no scores; ``only_official`` omits the measures of ``measure``."""
    if run.scored:
        return read_result(run.files.folder)
    log = run.log or parse_log(run.files.metrics)
    joined = joined_pieces(run.files.config)
    for warning in refuse(log, run.devset, language(run.target).latency_unit, joined):
        print(f"simulstream-eval: {run.label}: warning: {warning}", file=sys.stderr)
    scores = score(run.files, run.devset, run.target, log)
    measured = {} if only_official else measure(run, scores, log)
    result = Result(run.name, run.target, scores, measured, run.recorded)
    write_result(result, run.files)
    return result


def add_comet(scored: Sequence[tuple[EvalRun, Result]], model: str) -> list[tuple[EvalRun, Result]]:
    """In one process, score all runs that lack a score from ``model``; write ``scores.json``."""
    name = checkpoint(model)
    waiting = [run for run, item in scored if item.measured.get("comet", {}).get("model") != name]
    sections = iter(comet_sections(waiting, model))
    found = []
    for run, result in scored:
        if run in waiting:
            result = replace(result, measured={**result.measured, "comet": next(sections)})
            write_result(result, run.files)
        found.append((run, result))
    return found


def write_reports(scored: Sequence[tuple[EvalRun, Result]], ceilings: Ceilings, root: Path) -> None:
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


def measure(run: EvalRun, scores: Scores, log: Log) -> dict[str, Any]:
    """Return further sections of ``scores.json``; ``failed`` lists the sections that failed."""
    measured: dict[str, Any] = {}
    if scores.longyaal_cu_ms is not None:
        regime, margin = regime_of(scores.longyaal_cu_ms)
        measured["regime"] = {"name": regime, "margin_ms": round(margin, 1)}
    if notes := score_notes(run, scores, log):
        measured["notes"] = notes
    measured["talks"] = {}
    parts: dict[str, Callable[[EvalRun, Log], dict[str, Any]]] = {"talks": _talks, "trace": _trace}
    if log.format == "simulstream":
        parts["StreamLAAL"] = lambda run, _: stream_laal(run.files, run.devset, run.target)
        parts["lag in real time"] = _lag
    for name, part in parts.items():
        try:
            found = part(run, log)
            json.dumps(found, allow_nan=False)
            measured |= found
        except Exception as error:  # the official scores are still valid
            reason = (str(error).strip() or type(error).__name__).rpartition("\n")[2]
            measured.setdefault("failed", []).append(f"{name} was not measured: {reason}")
    return measured


def score_notes(run: EvalRun, scores: Scores, log: Log) -> list[str]:
    """Return notes on a log that can be scored, but whose scores are doubtful or incomplete."""
    segments = {}
    for talk in run.devset.talks:
        spans = [span for span in run.devset.segments if span.talk == talk.name]
        segments[talk.name] = spans[-1].offset_s, max(span.end_s for span in spans)
    notes = log_notes(log, segments)
    delays = log.format == "simulstream" or any(
        talk.instance is not None and "delays" in talk.instance for talk in log.talks
    )
    if not delays:
        notes.append("no LongYAAL: the log contains no delays")
    elif scores.longyaal_cu_ms is None:
        notes.append("no LongYAAL: all units were emitted after the end of the last segment")
    elif scores.longyaal_cu_ms < 0:
        notes.append(
            f"LongYAAL CU is {scores.longyaal_cu_ms:.0f} ms: output precedes the speech; check "
            f"that the delays are milliseconds from the start of the recording"
        )
    return notes


def _instances(run: EvalRun) -> list[Instance]:
    return read_instances(run.files.instances, language(run.target).latency_unit)


def _talks(run: EvalRun, log: Log) -> dict[str, Any]:
    talks = talk_latencies(run.devset.segments, _instances(run))
    for talk in log.talks if log.format == "simulstream" else ():
        rtf = talk.computation_s / talk.audio_s if talk.audio_s else 0.0
        talks.setdefault(talk.name, {})["rtf"] = round(rtf, 4)
    return {"talks": talks}


def _lag(run: EvalRun, log: Log) -> dict[str, Any]:
    clock = recorded_times(run.files.clock) if run.files.clock.is_file() else None
    lag = paced_latency(log.talks, run.devset.segments, _instances(run), clock)
    return {"paced": {"clock": "real" if clock else "virtual", **lag}}


def _trace(run: EvalRun, log: Log) -> dict[str, Any]:
    if not run.files.records.is_file():
        return {}
    records = list(read_steps(run.files.records))
    found = cascade_figures(records)
    if run.devset.transcript is not None:
        heard = streamed_transcripts(records)
        found["transcript"] = word_error_rate(run.devset, heard, run.source)
    return found


def talk_latencies(
    spans: Sequence[Span], instances: Sequence[Instance]
) -> dict[str, dict[str, float]]:
    """Return the computation-unaware and computation-aware LongYAAL of each talk, in ms."""
    result: dict[str, dict[str, float]] = {span.talk: {} for span in spans}
    for key, aware in (("longyaal_cu_ms", False), ("longyaal_ca_ms", True)):
        values = [
            (span.talk, yaal_ms(item, aware)) for span, item in zip(spans, instances, strict=True)
        ]
        for talk, figures in result.items():
            found = [value for name, value in values if name == talk and value is not None]
            if found:
                figures[key] = round(sum(found) / len(found), 4)
    return result


def cascade_figures(records: Sequence[TalkStep]) -> dict[str, Any]:
    """Return stage times, reasons for stopping, and decode steps of both language models."""
    chunks = len(records)
    audio_s = sum({record.talk: record.audio_s for record in records}.values())
    seconds = {stage: sum(record.seconds[stage] for record in records) for stage in STAGES}
    gates = [record.gated for record in records if record.gated is not None]
    steps, accepted = (sum(getattr(r, key) for r in records) for key in ("passes", "accepted"))
    transcripts = [item for record in records for item in record.heard.transcripts]
    decoded = sum(item.steps for item in transcripts)
    return {
        "stages": {
            "chunks": chunks,
            "ms_per_chunk": {k: round(1000 * v / max(chunks, 1), 3) for k, v in seconds.items()},
            "rtf": {k: round(v / max(audio_s, 1e-9), 4) for k, v in seconds.items()},
        },
        "decoding": {
            "stops": dict(Counter(gate.decision.reason for gate in gates).most_common()),
            "steps": steps,
            "accepted": accepted,
            "steps_per_accepted": round(steps / accepted, 3) if accepted else None,
            "transcripts": len(transcripts),
            "transcript_requests": sum(item.requests for item in transcripts),
            "transcript_steps": decoded,
            "steps_per_transcript": round(decoded / len(transcripts), 3) if transcripts else None,
        },
    }
