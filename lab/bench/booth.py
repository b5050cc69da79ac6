"""One ear and many tongues against a stream for each language, paired talk by talk."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from tqdm import tqdm

from alignatt_agent.cascade import Engines, build_booth, build_session, chunks
from alignatt_agent.config.languages import language
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.types import FloatArray, Step

SPEECH = ("asr", "aligner")


def one_ear(
    resolved: Resolved, engines: Engines, targets: Sequence[str], talks: Sequence[FloatArray]
) -> dict[str, Any]:
    """Translate talks, ``[samples]`` each, into all targets: one by one, then by one booth.

    Returns:
        Whether emissions are identical, the seconds of both ways, their ratio ``share``, and
        ``share_of_stages``: what is left when speech is heard once and translated N times, by the
        stage times of the streams, ``(speech + N translation) / (N step)``.
    """
    source = language(resolved.config.source_language)
    goals = [language(target) for target in targets]
    alone: list[Step] = []
    seconds_alone = seconds_together = 0.0
    identical = True
    for talk in tqdm(talks, desc="one ear"):
        begin, said = time.perf_counter(), {}
        for goal in goals:
            session = build_session(resolved, engines, source, goal)
            steps = [*map(session.step, chunks(resolved, talk)), session.finish()]
            said[goal.code] = [step.units for step in steps]
            alone += steps
        middle = time.perf_counter()
        booth = build_booth(resolved, engines, source, goals)
        heard = [*map(booth.step, chunks(resolved, talk)), booth.finish()]
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
