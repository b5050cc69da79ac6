"""One stream with several targets against a stream for each, paired talk by talk."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from tqdm import tqdm

from alignatt_agent.cascade.loading import Engines
from alignatt_agent.cascade.open_stream import chunks, open_stream
from alignatt_agent.config.languages import language
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.types import FloatArray, Step

SPEECH = ("asr", "aligner")


def shared_recognition(
    resolved: Resolved, engines: Engines, targets: Sequence[str], talks: Sequence[FloatArray]
) -> dict[str, Any]:
    """Translate talks, ``[samples]`` each, into all targets: one by one, then in one stream."""
    source = language(resolved.config.source_language)
    goals = [language(target) for target in targets]
    alone: list[Step] = []
    seconds_alone = seconds_together = 0.0
    identical = True
    for talk in tqdm(talks, desc="targets"):
        begin, said = time.perf_counter(), {}
        for goal in goals:
            stream = open_stream(resolved, engines, source, [goal])
            found = [*map(stream.step, chunks(resolved, talk)), stream.finish()]
            steps = [item.only() for item in found]
            said[goal.code] = [step.units for step in steps]
            alone += steps
        middle = time.perf_counter()
        stream = open_stream(resolved, engines, source, goals)
        heard = [*map(stream.step, chunks(resolved, talk)), stream.finish()]
        seconds_together += time.perf_counter() - middle
        seconds_alone += middle - begin
        for code, units in said.items():
            identical &= units == [item.steps[code].units for item in heard]
    speech = sum(step.seconds[stage] for step in alone for stage in SPEECH)
    whole = sum(sum(step.seconds.values()) for step in alone)
    count = len(targets)
    return {
        "targets": count,
        "identical": identical,
        "units": sum(len(step.units) for step in alone),
        "seconds_one_by_one": round(seconds_alone, 1),
        "seconds_together": round(seconds_together, 1),
        "share": round(seconds_together / seconds_alone, 3),
        "share_of_stages": round((speech / count + (whole - speech)) / whole, 3),
    }
