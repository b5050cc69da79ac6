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
from alignatt_agent.types import SAMPLE_RATE

if TYPE_CHECKING:
    from alignatt_agent.curves.runs import Run


def ask_ahead(runs: Sequence[Run], engines: Engines, streams: int, title: str) -> None:
    """Stream every talk of every run, ``streams`` of them at a time; what is said is not kept.

    Args:
        runs: what to stream.
        engines: ones that remember, from any thread.
        streams: how many talks at a time.
        title: label of the progress bar.

    Raises:
        EngineError: an engine failed.
    """
    names = list(dict.fromkeys(run.name for run in runs))
    # Targets of a point follow one another: the first hears for all.
    ordered = sorted(runs, key=lambda run: names.index(run.name))
    jobs = [(run, talk) for run in ordered for talk in run.devset.talks]
    with (
        ThreadPoolExecutor(streams, "stream") as pool,
        tqdm(total=len(jobs), desc=f"{title}, {streams} at once", unit="talk") as bar,
    ):
        asked = [pool.submit(_stream, run, talk, engines) for run, talk in jobs]
        try:
            for (run, talk), one in zip(jobs, asked, strict=True):
                one.result()
                bar.set_postfix_str(f"{run.target} {run.name} {talk.name}")
                bar.update()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _stream(run: Run, talk: Talk, engines: Engines) -> None:
    config = run.config
    samples, _ = soundfile.read(talk.wav, dtype="float32")
    source, target = language(run.source), language(run.target)
    context = config.speech.context_of(talk.name)
    session = build_session(run.resolved, engines, source, target, context=context)
    step = SAMPLE_RATE * config.chunk_ms // 1000
    for start in range(0, len(samples), step):
        session.step(samples[start : start + step])
    session.finish()
