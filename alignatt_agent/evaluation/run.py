"""Score runs, compute further measures, and write reports."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from omnisteval.data import Instance
from tqdm import tqdm

from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.check_log import refuse
from alignatt_agent.evaluation.comet import checkpoint, comet_sections
from alignatt_agent.evaluation.delays import is_timed, log_notes
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
from alignatt_agent.evaluation.run_files import RunFiles
from alignatt_agent.evaluation.score import (
    Result,
    Scores,
    read_result,
    score,
    stream_laal,
    write_result,
)
from alignatt_agent.evaluation.segments import Span
from alignatt_agent.evaluation.subwords import joined_pieces
from alignatt_agent.evaluation.trace import TalkStep, read_steps
from alignatt_agent.evaluation.wer import streamed_transcripts, word_error_rate
from alignatt_agent.types import AlignAttError
from alignatt_agent.types.stopwatch import STAGES


def score_all(
    runs: Sequence[EvalRun], jobs: int = 1, only_official: bool = False
) -> list[tuple[EvalRun, Result]]:
    """Score ``jobs`` runs at a time, each in separate processes; failures are printed.

    For a recording of one hour, OmniSTEval needs up to 5.5 GB of memory per job.
    """
    scored: list[tuple[EvalRun, Result]] = []
    # Threads suffice, because each scorer runs in a process of its own.
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        futures = [pool.submit(score_run, run, only_official) for run in runs]
        pairs = zip(runs, futures, strict=True)
        for run, future in tqdm(pairs, total=len(runs), desc="scoring", leave=False):
            try:
                scored.append((run, future.result()))
            except (AlignAttError, ValueError) as error:
                print(f"simulstream-eval: {run.label}: {error}", file=sys.stderr)
    return scored


def score_run(run: EvalRun, only_official: bool = False) -> Result:
    """Score a run if it has no scores; ``only_official`` omits the measures of ``measure``.

    Raises:
        LogError: the log cannot be scored.
        ScoringError: the scorer failed.
    """
    if run.scored:
        return read_result(run.files.folder)
    log = run.log or parse_log(run.files.metrics)
    unit = language(run.target).latency_unit
    for warning in refuse(log, run.devset, unit, joined_pieces(run.files.config)):
        print(f"simulstream-eval: {run.label}: warning: {warning}", file=sys.stderr)
    scores = score(run.files, run.devset, run.target, log)
    measured = {} if only_official else measure(run, scores, log)
    result = Result(run.name, run.target, scores, measured, run.recorded)
    write_result(result, run.files)
    return result


def add_comet(scored: Sequence[tuple[EvalRun, Result]], model: str) -> list[tuple[EvalRun, Result]]:
    """In one process, score all runs that lack a score from ``model``; write ``scores.json``."""
    name = checkpoint(model)
    waiting: list[EvalRun] = []
    for run, result in scored:
        if result.measured.get("comet", {}).get("model") != name:
            waiting.append(run)
    sections = iter(comet_sections(waiting, model))
    complete: list[tuple[EvalRun, Result]] = []
    for run, result in scored:
        if run in waiting:
            measured = {**result.measured, "comet": next(sections)}
            result = replace(result, measured=measured)
            write_result(result, run.files)
        complete.append((run, result))
    return complete


def write_reports(scored: Sequence[tuple[EvalRun, Result]], ceilings: Ceilings, root: Path) -> None:
    """Write ``report.md`` and ``report.html`` and print the table."""
    results: list[Result] = []
    files: list[tuple[Result, RunFiles]] = []
    commands: list[str] = []
    notes: list[str] = []
    for run, result in scored:
        results.append(result)
        files.append((result, run.files))
        commands += run.commands
        notes += run.devset.notes
    # All targets of a configuration have the same notes on the data.
    text = markdown(results, commands, list(dict.fromkeys(notes)), ceilings)
    (root / "report.md").write_text(text, encoding="utf-8")
    (root / "report.html").write_text(html_page(files, text, ceilings), encoding="utf-8")
    print(f"\n{score_table(results, ceilings)}\n")
    print(f"reports: {root / 'report.html'}, {root / 'report.md'}")


def measure(run: EvalRun, scores: Scores, log: Log) -> dict[str, Any]:
    """Return further sections of ``scores.json``; ``failed`` lists the sections that failed."""
    measured: dict[str, Any] = {}
    if scores.longyaal_cu_ms is not None:
        regime, margin = regime_of(scores.longyaal_cu_ms)
        measured["regime"] = {"name": regime, "margin_ms": round(margin, 1)}
    notes = score_notes(run, scores, log)
    if notes:
        measured["notes"] = notes
    # Plots read this section, even if it cannot be measured.
    measured["talks"] = {}
    parts: dict[str, Callable[[EvalRun, Log], Mapping[str, Any]]] = {
        "talks": _talk_section,
        "trace": _trace_sections,
    }
    if log.format == "simulstream":
        parts["StreamLAAL"] = _stream_laal
        parts["lag in real time"] = _lag_section
    for name, part in parts.items():
        try:
            sections = part(run, log)
            # NaN must fail here: write_result refuses it, and all scores would be lost.
            json.dumps(sections, allow_nan=False)
            measured |= sections
        # The official scores are still valid. StreamLAAL, for instance, refuses a talk whose last
        # reference is empty.
        except Exception as error:
            description = str(error).strip() or type(error).__name__
            reason = description.rpartition("\n")[2]
            measured.setdefault("failed", []).append(f"{name} was not measured: {reason}")
    return measured


def score_notes(run: EvalRun, scores: Scores, log: Log) -> list[str]:
    """Return notes on a log that can be scored, but whose scores are doubtful or incomplete."""
    # The start of the last segment, and the end of the segment that ends last.
    last_segments: dict[str, tuple[float, float]] = {}
    for span in run.devset.segments:
        _, latest_end_s = last_segments.get(span.talk, (0.0, 0.0))
        last_segments[span.talk] = (span.offset_s, max(latest_end_s, span.end_s))
    notes = log_notes(log, last_segments)
    if not _has_delays(log):
        notes.append("no LongYAAL: the log contains no delays")
    elif scores.longyaal_cu_ms is None:
        notes.append("no LongYAAL: all units were emitted after the end of the last segment")
    elif scores.longyaal_cu_ms < 0:
        notes.append(
            f"LongYAAL CU is {scores.longyaal_cu_ms:.0f} ms: output precedes the speech; check "
            f"that the delays are milliseconds from the start of the recording"
        )
    elif scores.longyaal_ca_ms is None and is_timed(log):
        notes.append(
            "no LongYAAL CA: with the computation times, all units were emitted after the end of "
            "the last segment"
        )
    return notes


def _has_delays(log: Log) -> bool:
    if log.format == "simulstream":
        return True
    return any(talk.instance is not None and "delays" in talk.instance for talk in log.talks)


def _instances(run: EvalRun) -> list[Instance]:
    return read_instances(run.files.instances, language(run.target).latency_unit)


def _talk_section(run: EvalRun, log: Log) -> dict[str, Any]:
    talks = talk_latencies(run.devset.segments, _instances(run))
    if log.format == "simulstream":
        for talk in log.talks:
            rtf = talk.computation_s / talk.audio_s if talk.audio_s else 0.0
            talks.setdefault(talk.name, {})["rtf"] = round(rtf, 4)
    return {"talks": talks}


def _stream_laal(run: EvalRun, log: Log) -> dict[str, float]:
    return stream_laal(run.files, run.devset, run.target)


def _lag_section(run: EvalRun, log: Log) -> dict[str, Any]:
    times: dict[str, list[float]] = {}
    if run.files.clock.is_file():
        times = recorded_times(run.files.clock)
    clock = "real" if times else "virtual"
    lag = paced_latency(log.talks, run.devset.segments, _instances(run), times)
    return {"paced": {"clock": clock, **lag}}


def _trace_sections(run: EvalRun, log: Log) -> dict[str, Any]:
    if not run.files.records.is_file():
        return {}
    records = list(read_steps(run.files.records))
    sections = cascade_figures(records)
    if run.devset.transcript is not None:
        transcripts = streamed_transcripts(records)
        sections["transcript"] = word_error_rate(run.devset, transcripts, run.source)
    return sections


def talk_latencies(
    spans: Sequence[Span], instances: Sequence[Instance]
) -> dict[str, dict[str, float]]:
    """Return the computation-unaware and computation-aware LongYAAL of each talk, in ms."""
    latencies: dict[str, dict[str, float]] = {span.talk: {} for span in spans}
    for key, aware in (("longyaal_cu_ms", False), ("longyaal_ca_ms", True)):
        values_of_talk: dict[str, list[float]] = {}
        for span, instance in zip(spans, instances, strict=True):
            value = yaal_ms(instance, aware)
            if value is not None:
                values_of_talk.setdefault(span.talk, []).append(value)
        for talk, values in values_of_talk.items():
            latencies[talk][key] = round(sum(values) / len(values), 4)
    return latencies


def cascade_figures(records: Sequence[TalkStep]) -> dict[str, Any]:
    """Return stage times, reasons for stopping, and decode steps of both language models."""
    return {"stages": _stage_figures(records), "decoding": _decoding_figures(records)}


def _stage_figures(records: Sequence[TalkStep]) -> dict[str, Any]:
    # The last chunk of a talk has the length of the talk.
    lengths_s = {record.talk: record.audio_s for record in records}
    audio_s = sum(lengths_s.values())
    ms_per_chunk: dict[str, float] = {}
    rtf: dict[str, float] = {}
    for stage in STAGES:
        seconds = sum(record.seconds[stage] for record in records)
        ms_per_chunk[stage] = round(1000 * seconds / max(len(records), 1), 3)
        rtf[stage] = round(seconds / max(audio_s, 1e-9), 4)
    return {"chunks": len(records), "ms_per_chunk": ms_per_chunk, "rtf": rtf}


def _decoding_figures(records: Sequence[TalkStep]) -> dict[str, Any]:
    stops: Counter[str] = Counter()
    steps = 0
    accepted = 0
    transcripts = 0
    transcript_requests = 0
    transcript_steps = 0
    for record in records:
        if record.gated is not None:
            stops[record.gated.decision.reason] += 1
        steps += record.passes
        accepted += record.accepted
        for transcript in record.heard.transcripts:
            transcripts += 1
            transcript_requests += transcript.requests
            transcript_steps += transcript.steps
    return {
        "stops": dict(stops.most_common()),
        "steps": steps,
        "accepted": accepted,
        "steps_per_accepted": _ratio(steps, accepted),
        "transcripts": transcripts,
        "transcript_requests": transcript_requests,
        "transcript_steps": transcript_steps,
        "steps_per_transcript": _ratio(transcript_steps, transcripts),
    }


def _ratio(count: int, total: int) -> float | None:
    return round(count / total, 3) if total else None
