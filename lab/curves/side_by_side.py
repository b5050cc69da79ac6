"""Talks side by side, so that engines batch what a memo is to hold."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import soundfile
from tqdm import tqdm

from alignatt_agent.cascade import Engines, build_booth, chunks
from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.devset import Talk

if TYPE_CHECKING:
    from lab.curves.runs import Run


def ask_ahead(runs: Sequence[Run], engines: Engines, streams: int, title: str) -> None:
    """Stream every talk of every run, ``streams`` of them at a time; what is said is not kept.

    The targets of a point share one ear.

    Args:
        runs: what to stream.
        engines: ones that remember, from any thread.
        streams: how many talks at a time; more than there are would hear the same twice.
        title: label of the progress bar.

    Raises:
        EngineError: an engine failed.
    """
    talks = runs[0].devset.talks
    points: dict[str, list[Run]] = {}
    for run in runs:
        points.setdefault(run.name, []).append(run)
    streams = min(streams, len(talks))
    with ThreadPoolExecutor(streams, "stream") as pool:
        asked = [
            pool.submit(_stream, same, talk, engines) for same in points.values() for talk in talks
        ]
        try:
            for one in tqdm(asked, f"{title}, {streams} at once", unit="talk"):
                one.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _stream(runs: Sequence[Run], talk: Talk, engines: Engines) -> None:
    resolved = runs[0].resolved  # that of their point, for every target
    booth = build_booth(
        resolved,
        engines,
        language(runs[0].source),
        [language(run.target) for run in runs],
        context=resolved.config.speech.context_of(talk.name),
    )
    samples, _ = soundfile.read(talk.wav, dtype="float32")
    for step in (*map(booth.step, chunks(resolved, samples)), booth.finish()):
        for failure in step.failures.values():
            raise failure
