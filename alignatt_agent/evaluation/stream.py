"""One target language through the official harness, in this process."""

from __future__ import annotations

import logging
from argparse import Namespace

from simulstream import inference
from simulstream.metrics.logger import METRICS_LOGGER

from alignatt_agent.evaluation.agents import AgentChoice
from alignatt_agent.evaluation.devset import DevSet
from alignatt_agent.evaluation.files import RunFiles
from alignatt_agent.evaluation.progress import TalkProgress


class RunError(RuntimeError):
    """A run did not produce a complete output."""


def run_stream(
    choice: AgentChoice, devset: DevSet, files: RunFiles, target: str, source: str
) -> None:
    """Stream every talk through the agent and write ``metrics.jsonl``.

    Raises:
        RunError: the agent reported an error that the harness swallowed.
    """
    progress = TalkProgress({talk.wav.stem: talk.seconds for talk in devset.talks}, target)
    failures: list[str] = getattr(choice.cls, "failures", [])
    before = len(failures)
    # Left alone the logger inherits the root's level, and at WARNING the log stays empty.
    METRICS_LOGGER.setLevel(logging.INFO)
    METRICS_LOGGER.disabled = False
    METRICS_LOGGER.addFilter(progress)
    try:
        inference.main(
            Namespace(
                speech_processor_config=str(files.config),
                wav_list_file=str(files.wavs),
                tgt_lang=target,
                src_lang=source,
                metrics_log_file=str(files.metrics),
            )
        )
    finally:
        METRICS_LOGGER.removeFilter(progress)
        progress.close()
        for handler in list(METRICS_LOGGER.handlers):
            handler.close()
            METRICS_LOGGER.removeHandler(handler)
    if len(failures) > before:
        raise RunError(
            f"{len(failures) - before} error(s) while streaming, the output is not complete: "
            + "; ".join(failures[before:])
        )
