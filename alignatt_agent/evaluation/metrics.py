"""What is measured about a run in addition to the official scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from omnisteval.data import Instance

from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.devset import DevSet, Span
from alignatt_agent.evaluation.latency import (
    emitted_units,
    paced_report,
    read_instances,
    regime_of,
    yaal_ms,
)
from alignatt_agent.evaluation.log import Log
from alignatt_agent.evaluation.run_files import RunFiles
from alignatt_agent.evaluation.score import Scores, stream_laal
from alignatt_agent.evaluation.trace import TalkStep, read_steps
from alignatt_agent.evaluation.wer import streamed_transcripts, word_error_rate
from alignatt_agent.types.stopwatch import STAGES


def measure(
    files: RunFiles, devset: DevSet, target: str, scores: Scores, log: Log
) -> dict[str, Any]:
    """Return further sections of ``scores.json``, as far as the logs of the run have them."""
    regime, margin = regime_of(scores.longyaal_cu_ms)
    unit = language(target).latency_unit
    instances = read_instances(files.instances, unit, len(devset.segments))
    talks = talk_latencies(devset.segments, instances)
    measured: dict[str, Any] = {"regime": {"name": regime, "margin_ms": round(margin, 1)}}
    if log.format == "simulstream":
        measured |= {**stream_laal(files, devset, target), "talks": talks}
        clock = files.clock if files.clock.is_file() else None
        units = emitted_units(devset.segments, instances)
        measured["paced"] = paced_report(log.talks, units, clock)
        for talk in log.talks:
            rtf = talk.computation_s / talk.audio_s if talk.audio_s else 0.0
            talks.setdefault(talk.name, {})["rtf"] = round(rtf, 4)
    measured["talks"] = talks
    if files.records.is_file():
        records = list(read_steps(files.records))
        measured |= cascade_figures(records)
        if devset.transcript is not None:
            measured["transcript"] = word_error_rate(devset, streamed_transcripts(records))
    return measured


def talk_latencies(
    spans: Sequence[Span], instances: Sequence[Instance]
) -> dict[str, dict[str, float]]:
    """Return LongYAAL of each talk in milliseconds, computation-unaware and -aware."""
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
    """Return stage times, reasons for stopping, and decoding steps of both language models."""
    chunks = len(records)
    audio_s = sum({record.talk: record.audio_s for record in records}.values())
    seconds = {stage: sum(record.seconds[stage] for record in records) for stage in STAGES}
    gates = [record.gated for record in records if record.gated is not None]
    steps, accepted = (sum(getattr(r, key) for r in records) for key in ("passes", "accepted"))
    found = [record.heard.transcripts for record in records]
    transcripts, requests, decoded = (
        sum(getattr(item, key) for item in found) for key in ("count", "requests", "steps")
    )
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
            "transcripts": transcripts,
            "transcript_requests": requests,
            "transcript_steps": decoded,
            "steps_per_transcript": round(decoded / transcripts, 3) if transcripts else None,
        },
    }
