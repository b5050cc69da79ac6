"""Several talks at a time, so that engines batch the requests whose results are cached."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import soundfile
from tqdm import tqdm

from alignatt_agent.cascade.loading import Engines
from alignatt_agent.cascade.open_stream import chunks, open_stream
from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.devset import Talk
from alignatt_agent.evaluation.plan import EvalRun


def fill_cache(runs: Sequence[EvalRun], engines: Engines, streams: int) -> None:
    """Stream every talk of every run, so many at a time; the output is not kept.

    The targets of a configuration share the recognition.
    """
    talks = runs[0].devset.talks
    points: dict[str, list[EvalRun]] = {}
    for run in runs:
        points.setdefault(run.name, []).append(run)
    streams = min(streams, len(talks))
    with ThreadPoolExecutor(streams, "stream") as pool:
        asked = [
            pool.submit(_stream, same, talk, engines) for same in points.values() for talk in talks
        ]
        try:
            for one in tqdm(asked, f"{streams} streams at once", unit="talk"):
                one.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _stream(runs: Sequence[EvalRun], talk: Talk, engines: Engines) -> None:
    choice = runs[0].choice  # the same for every target
    assert choice is not None
    assert choice.resolved is not None
    resolved = choice.resolved
    stream = open_stream(
        resolved,
        engines,
        language(runs[0].source),
        [language(run.target) for run in runs],
        context=resolved.config.speech.context_of(talk.name),
    )
    samples, _ = soundfile.read(talk.wav, dtype="float32")
    for step in (*map(stream.step, chunks(resolved, samples)), stream.finish()):
        for failure in step.failures.values():
            raise failure
