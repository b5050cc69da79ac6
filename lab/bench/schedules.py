"""What overlapping stages gain: the lag of units by the clock, under each schedule and load.

Audio comes as it is spoken; what waits is heard chunk by chunk. The engines are slowed by constant
sleeps until stages in turn take the wanted share of real time, so a slow device can be looked at on
a fast one. Stages that sleep do not share a processor: overlap gains here what it gains where the
stages have devices of their own, or one with room for both.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from alignatt_agent.cascade.loading import Engines
from alignatt_agent.cascade.open_stream import chunks, open_stream
from alignatt_agent.config.agent_config import Schedule
from alignatt_agent.config.languages import language
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.doctor.speakers import Excerpt
from alignatt_agent.types import SAMPLE_RATE, SpeechUpdate, Step

SCHEDULES: tuple[Schedule, ...] = get_args(Schedule)
LOADS = (0.3, 0.8, 1.2)
"""Real-time factors of stages in turn."""


class Slowed:
    """An engine each of whose calls of one method takes ``seconds`` longer."""

    def __init__(self, engine: Any, call: str, seconds: float) -> None:
        self._engine, self._call, self._seconds = engine, call, seconds
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._engine, name)
        if name != self._call:
            return found

        def slowed(*given: Any, **named: Any) -> Any:
            self.calls += 1
            time.sleep(self._seconds)
            return found(*given, **named)

        return slowed


def schedules(
    resolved: Resolved, engines: Engines, job: Excerpt, loads: Sequence[float] = LOADS
) -> Iterator[dict[str, Any]]:
    """Translate an excerpt by the clock under every schedule and load; lags are in seconds."""
    chunk_s = resolved.config.chunk_ms / 1000
    asr, mt = Slowed(engines.asr, "transcribe", 0.0), Slowed(engines.translation, "draft", 0.0)
    steps, _ = _translate(resolved, replace(engines, asr=asr, translation=mt), job, "sync")
    spent = np.mean([sum(step.seconds.values()) for step in steps])
    speech = np.mean([step.seconds["asr"] + step.seconds["aligner"] for step in steps])
    calls = [engine.calls / len(steps) for engine in (asr, mt)]
    for load in loads:
        extra = max(0.0, load * chunk_s - float(spent))
        shares = (float(speech / spent), 1 - float(speech / spent))
        slow = [extra * share / max(n, 1e-9) for share, n in zip(shares, calls, strict=True)]
        slowed = replace(
            engines,
            asr=Slowed(engines.asr, "transcribe", slow[0]),
            translation=Slowed(engines.translation, "draft", slow[1]),
        )
        measured = 0.0
        for schedule in SCHEDULES:
            steps, said = _translate(resolved, slowed, job, schedule, paced=True)
            if schedule == "sync":
                seconds = sum(sum(step.seconds.values()) for step in steps)
                measured = seconds / (len(job[0]) / SAMPLE_RATE)
            lags = np.array([at - end for at, end in said])
            quarter = max(1, len(lags) // 4)
            p50, p95 = np.percentile(lags, [50, 95])
            yield {
                "load": load,
                "rtf_in_turn": round(measured, 3),
                "schedule": schedule,
                "units": len(lags),
                "lag_p50_s": round(float(p50), 3),
                "lag_p95_s": round(float(p95), 3),
                "lag_mean_s": round(float(lags.mean()), 3),
                "growth_s": round(float(lags[-quarter:].mean() - lags[:quarter].mean()), 3),
            }


def _translate(
    resolved: Resolved, engines: Engines, job: Excerpt, schedule: Schedule, paced: bool = False
) -> tuple[list[Step], list[tuple[float, float]]]:
    """Return the steps, and when each unit was said and what it translates ended, in seconds."""
    audio, target = job
    config = resolved.config.model_copy(update={"schedule": schedule})
    begin = time.perf_counter()
    steps: list[Step] = []
    said: list[tuple[float, float]] = []

    def ready(step: Step) -> None:
        now = time.perf_counter() - begin
        steps.append(step)
        said.extend((now, spoken.end) for spoken in step.times)

    source, resolved = language(config.source_language), replace(resolved, config=config)
    stream = open_stream(resolved, engines, source, [language(target)])
    translating = stream.targets[target]
    update = translating.update

    def observed(heard: SpeechUpdate, audio_s: float) -> Step:
        step = update(heard, audio_s)
        ready(step)
        return step

    if schedule == "async":  # a call would return later what is ready before
        translating.update = observed  # type: ignore[method-assign, assignment]
    heard = 0
    for chunk in [*chunks(resolved, audio), None]:
        heard += 0 if chunk is None else len(chunk)
        if paced:
            time.sleep(max(0.0, begin + heard / SAMPLE_RATE - time.perf_counter()))
        step = (stream.finish() if chunk is None else stream.step(chunk)).only()
        if schedule != "async":
            ready(step)
    return steps, said
