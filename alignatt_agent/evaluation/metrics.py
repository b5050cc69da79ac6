"""Everything that is reported about a run beside the official scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.devset import DevSet
from alignatt_agent.evaluation.latency import Segment, all_units, read_segments
from alignatt_agent.evaluation.log import TalkLog, log_format, read_log
from alignatt_agent.evaluation.paced import paced_report
from alignatt_agent.evaluation.regime import place
from alignatt_agent.evaluation.run_files import RunFiles
from alignatt_agent.evaluation.score import Scores
from alignatt_agent.evaluation.stream_laal import stream_laal
from alignatt_agent.evaluation.trace import Record, read_records
from alignatt_agent.evaluation.wer import streamed_transcripts, word_error_rate
from alignatt_agent.stopwatch import STAGES


def measure(files: RunFiles, devset: DevSet, target: str, scores: Scores) -> dict[str, Any]:
    """Measure a scored run.

    Returns:
        Sections of ``scores.json``; a section that the logs cannot give is left out.
    """
    found = place(scores.longyaal_cu_ms)
    measured: dict[str, Any] = {
        "regime": {"name": found.name, "margin_ms": round(found.margin_ms, 1)},
        **(stream_laal(files, devset, target) or {}),
    }
    segments = read_segments(files.instances, devset, language(target).latency_unit)
    measured["talks"] = talk_latencies(segments)
    if log_format(files.metrics) == "simulstream":
        logs = read_log(files.metrics)
        clock = files.clock if files.clock.is_file() else None
        measured["paced"] = paced_report("real", logs, all_units(segments), clock)
        for log in logs:
            measured["talks"].setdefault(log.name, {})["rtf"] = round(_rtf(log), 4)
    if files.records.is_file():
        measured |= inner(read_records(files.records))
        if devset.transcript is not None:
            heard = streamed_transcripts(read_records(files.records))
            measured["transcript"] = word_error_rate(devset, heard)
    return measured


def talk_latencies(segments: Iterable[Segment]) -> dict[str, dict[str, float]]:
    """Return LongYAAL of each talk in ms, computation-unaware and -aware."""
    talks: dict[str, list[Segment]] = {}
    for segment in segments:
        talks.setdefault(segment.talk, []).append(segment)
    result: dict[str, dict[str, float]] = {}
    for name, inside in talks.items():
        result[name] = {}
        for key, aware in (("longyaal_cu_ms", False), ("longyaal_ca_ms", True)):
            values = [v for segment in inside if (v := segment.yaal_ms(aware)) is not None]
            if values:
                result[name][key] = round(sum(values) / len(values), 4)
    return result


def inner(records: Iterable[Record]) -> dict[str, Any]:
    """Return stage times, reasons for stopping, and decoding steps per emitted token."""
    seconds = dict.fromkeys(STAGES, 0.0)
    reasons: Counter[str] = Counter()
    audio: dict[str, float] = {}
    chunks = steps = accepted = 0
    for record in records:
        chunks += 1
        audio[record.talk] = record.audio_s
        for stage in STAGES:
            seconds[stage] += record.seconds[stage]
        if record.reason is not None:
            reasons[record.reason] += 1
        steps += record.steps
        accepted += record.accepted
    heard = sum(audio.values())
    return {
        "stages": {
            "chunks": chunks,
            "ms_per_chunk": {k: round(1000 * v / max(chunks, 1), 3) for k, v in seconds.items()},
            "rtf": {k: round(v / max(heard, 1e-9), 4) for k, v in seconds.items()},
        },
        "decoding": {
            "stops": dict(reasons.most_common()),
            "steps": steps,
            "accepted": accepted,
            "steps_per_accepted": round(steps / accepted, 3) if accepted else None,
        },
    }


def _rtf(log: TalkLog) -> float:
    return log.computed_s / log.heard_s if log.heard_s else 0.0
