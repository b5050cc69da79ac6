"""One target language through the official harness, in this process."""

from __future__ import annotations

import json
import logging
import time
from argparse import Namespace
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from simulstream import inference
from simulstream.client.wav_reader_client import read_wav_file
from simulstream.config import yaml_config
from simulstream.metrics.logger import METRICS_LOGGER, setup_metrics_logger
from simulstream.server.message_processor import MessageProcessor
from simulstream.server.speech_processors import build_speech_processor

from alignatt_agent.evaluation.devset import DevSet
from alignatt_agent.evaluation.progress import TalkProgress
from alignatt_agent.evaluation.resolve import AgentChoice
from alignatt_agent.evaluation.run_files import RunFiles
from alignatt_agent.evaluation.trace import Recorder

if TYPE_CHECKING:
    from collections.abc import Iterator


class RunError(RuntimeError):
    """A run did not produce a complete output."""


def run_stream(
    choice: AgentChoice,
    devset: DevSet,
    files: RunFiles,
    target: str,
    source: str,
    paced: bool = False,
) -> None:
    """Stream every talk through the agent and write ``metrics.jsonl``.

    Args:
        choice: agent and configuration.
        devset: what to stream.
        files: where to write.
        target: code of the language of the output.
        source: code of the spoken language.
        paced: deliver the audio by the clock; takes as long as the talks.

    Raises:
        RunError: the agent reported an error that the harness swallowed.
    """
    failures: list[str] = getattr(choice.cls, "failures", [])
    before = len(failures)
    arguments = Namespace(
        speech_processor_config=str(files.config),
        wav_list_file=str(files.wavs),
        tgt_lang=target,
        src_lang=source,
        metrics_log_file=str(files.metrics),
    )
    with ExitStack() as stack:
        recorder = stack.enter_context(_observed(choice, files.records))
        seconds = {talk.name: talk.seconds for talk in devset.talks}
        stack.enter_context(_logged(TalkProgress(seconds, target, recorder)))
        if paced:
            clock = stack.enter_context(files.clock.open("w", encoding="utf-8"))
            run_paced(arguments, [talk.wav for talk in devset.talks], clock)
        else:
            inference.main(arguments)
    if len(failures) > before:
        raise RunError(
            f"{len(failures) - before} error(s) while streaming, the output is not complete: "
            + "; ".join(failures[before:])
        )


def run_paced(arguments: Namespace, wavs: list[Path], clock: TextIO) -> None:
    """Do what ``simulstream.inference.main`` does, with the audio delivered in real time.

    Args:
        arguments: of ``simulstream.inference.main``.
        wavs: recordings.
        clock: receives one line per chunk: when it arrived and when it was done, in seconds from
            the first sample.
    """
    setup_metrics_logger(Namespace(enabled=True, filename=arguments.metrics_log_file))
    begin = time.time()
    processor = build_speech_processor(yaml_config(arguments.speech_processor_config))
    METRICS_LOGGER.info(json.dumps({"model_loading_time": time.time() - begin}))
    for number, wav in enumerate(wavs):
        rate, samples = read_wav_file(str(wav))
        messages = MessageProcessor(number, processor)
        messages.process_metadata(
            {
                "sample_rate": rate,
                "metrics_metadata": {"wav_name": str(wav)},
                "target_lang": arguments.tgt_lang,
                "source_lang": arguments.src_lang,
            }
        )
        live = _Live(clock, wav.stem)
        size = int(rate * processor.speech_chunk_size)
        for start in range(0, len(samples), size):
            piece = samples[start : start + size]
            arrived = (start + len(piece)) / rate
            live.wait_for(arrived)
            # A short last piece only fills the buffer; it is processed with the end of the stream.
            if messages.process_speech(piece.tobytes()) is not None:
                live.done(arrived)
        messages.end_of_stream()
        live.done(len(samples) / rate)


class _Live:
    """The clock of one recording; its first sample is spoken at 0."""

    def __init__(self, output: TextIO, talk: str) -> None:
        self._output, self._talk = output, talk
        self._begin = time.monotonic()

    def wait_for(self, moment: float) -> None:
        time.sleep(max(0.0, self._begin + moment - time.monotonic()))

    def done(self, arrived: float) -> None:
        line = {"talk": self._talk, "audio_s": arrived, "done_s": time.monotonic() - self._begin}
        self._output.write(json.dumps(line) + "\n")


@contextmanager
def _observed(choice: AgentChoice, path: Path) -> Iterator[Recorder | None]:
    """Record the sessions of our own agents; others cannot be looked into."""
    if not hasattr(choice.cls, "observer"):
        yield None
        return
    cls: Any = choice.cls
    with Recorder(path) as recorder:
        cls.observer = recorder
        try:
            yield recorder
        finally:
            cls.observer = None


@contextmanager
def _logged(progress: TalkProgress) -> Iterator[None]:
    """Make the harness write its log, and follow it."""
    # Left alone the logger inherits the root's level, and at WARNING the log stays empty.
    METRICS_LOGGER.setLevel(logging.INFO)
    METRICS_LOGGER.disabled = False
    METRICS_LOGGER.addFilter(progress)
    try:
        yield
    finally:
        METRICS_LOGGER.removeFilter(progress)
        progress.close()
        for handler in list(METRICS_LOGGER.handlers):
            handler.close()
            METRICS_LOGGER.removeHandler(handler)
