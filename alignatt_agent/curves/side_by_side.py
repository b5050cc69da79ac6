"""Talks side by side, so that engines batch what a memo is to hold."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import soundfile
from tqdm import tqdm

from alignatt_agent.cascade import Engines, build_session
from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.devset import Talk
from alignatt_agent.types import SAMPLE_RATE, FloatArray

if TYPE_CHECKING:
    from alignatt_agent.curves.runs import Run


def ask_ahead(runs: Sequence[Run], engines: Engines, streams: int, title: str) -> None:
    """Stream every talk of every run, ``streams`` of them at a time; what is said is not kept.

    The targets of a point follow one another on a talk, so what one heard is there for the next.

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
    samples, _ = soundfile.read(talk.wav, dtype="float32")
    for run in runs:
        _stream_one(run, talk, samples, engines)


def _stream_one(run: Run, talk: Talk, samples: FloatArray, engines: Engines) -> None:
    config = run.config
    source, target = language(run.source), language(run.target)
    context = config.speech.context_of(talk.name)
    session = build_session(run.resolved, engines, source, target, context=context)
    step = SAMPLE_RATE * config.chunk_ms // 1000
    for start in range(0, len(samples), step):
        session.step(samples[start : start + step])
    session.finish()
