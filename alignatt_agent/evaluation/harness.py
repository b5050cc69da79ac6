"""One target language through the official harness, in this process."""

from __future__ import annotations

import json
import logging
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TextIO

from simulstream import inference
from simulstream.client.wav_reader_client import read_wav_file
from simulstream.config import yaml_config
from simulstream.metrics.logger import METRICS_LOGGER, setup_metrics_logger
from simulstream.server.message_processor import MessageProcessor
from simulstream.server.speech_processors import build_speech_processor
from tqdm import tqdm

from alignatt_agent.evaluation.plan import EvalRun
from alignatt_agent.evaluation.trace import Recorder
from alignatt_agent.types import EngineError


def run_stream(run: EvalRun, paced: bool = False, progress: bool = True) -> None:
    """Stream a prepared run; errors that the harness swallowed are raised at the end."""
    cls: Any = run.agent_class
    files = run.files
    failures: list[str] = getattr(cls, "failures", [])
    before, recorder = len(failures), None
    arguments = Namespace(
        speech_processor_config=str(files.config),
        wav_list_file=str(files.wavs),
        tgt_lang=run.target,
        src_lang=run.source,
        metrics_log_file=str(files.metrics),
    )
    with ExitStack() as stack:
        if hasattr(cls, "observer"):  # other agents than ours cannot be observed
            recorder = cls.observer = stack.enter_context(Recorder(files.records))
            stack.callback(setattr, cls, "observer", None)
        stack.enter_context(_logged(_LogWatcher(run, recorder, progress)))
        if paced:
            clock = stack.enter_context(files.clock.open("w", encoding="utf-8"))
            run_paced(arguments, [talk.wav for talk in run.devset.talks], clock)
        else:
            inference.main(arguments)
    if len(failures) > before:
        raise EngineError(
            f"{len(failures) - before} error(s) while streaming, the output is not complete: "
            + "; ".join(failures[before:])
        )


def run_paced(arguments: Namespace, wavs: list[Path], clock: TextIO) -> None:
    """Do what ``simulstream.inference.main`` does in real time; ``clock`` gets a line per chunk."""
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
        begin = time.monotonic()
        size = int(rate * processor.speech_chunk_size)
        for start in range(0, len(samples), size):
            piece = samples[start : start + size]
            arrived = (start + len(piece)) / rate
            time.sleep(max(0.0, begin + arrived - time.monotonic()))
            # A short last piece only fills the buffer; it is processed with the end of the stream.
            if messages.process_speech(piece.tobytes()) is not None:
                _write_done(clock, wav.stem, arrived, begin)
        messages.end_of_stream()
        _write_done(clock, wav.stem, len(samples) / rate, begin)


def _write_done(clock: TextIO, talk: str, arrived: float, begin: float) -> None:
    line = {"talk": talk, "audio_s": arrived, "done_s": time.monotonic() - begin}
    clock.write(json.dumps(line) + "\n")


@contextmanager
def _logged(watcher: _LogWatcher) -> Iterator[None]:
    """Make the harness write its log, and watch it."""
    # Left alone the logger inherits the root's level, and at WARNING the log stays empty.
    METRICS_LOGGER.setLevel(logging.INFO)
    METRICS_LOGGER.disabled = False
    METRICS_LOGGER.addFilter(watcher)
    try:
        yield
    finally:
        METRICS_LOGGER.removeFilter(watcher)
        watcher.close()
        for handler in list(METRICS_LOGGER.handlers):
            handler.close()
            METRICS_LOGGER.removeHandler(handler)


class _LogWatcher(logging.Filter):
    """Reads each line of the harness's log: names the talk to the recorder, moves a bar.

    A filter, because ``simulstream.inference.main`` removes all handlers from its logger. It runs
    after a chunk's computation time was taken, so bars do not count as computation. The lag is that
    by the clock: the wait behind earlier chunks plus the computation of the latest one.
    """

    def __init__(self, run: EvalRun, recorder: Recorder | None, progress: bool) -> None:
        super().__init__()
        self._lengths = {talk.name: talk.seconds for talk in run.devset.talks}
        self._label, self._recorder, self._progress = run.target, recorder, progress
        self._bar: Any = None

    def filter(self, record: logging.LogRecord) -> bool:
        """Read one line, which passes unchanged."""
        line = json.loads(record.getMessage())
        if "metadata" in line:
            self._begin(Path(line["metadata"]["wav_name"]).stem)
        elif "total_audio_processed" in line:
            self._move(line["total_audio_processed"], line["computation_time"])
        return True

    def close(self) -> None:
        """Finish the current bar."""
        if self._bar is not None:
            self._bar.close()

    def _begin(self, talk: str) -> None:
        self.close()
        if self._recorder is not None:
            self._recorder.talk = talk
        self._computed = 0.0
        self._free = 0.0  # when the latest chunk would be done, by the clock
        self._bar = tqdm(
            total=self._lengths.get(talk, 0.0),
            desc=f"{self._label} {talk}",
            unit="s",
            bar_format="{desc:<24} {percentage:3.0f}%|{bar:30}| {n:.1f}/{total:.1f} s "
            "[{elapsed}{postfix}]",
            mininterval=0.5 if sys.stderr.isatty() else 10,
            disable=not self._progress,
        )

    def _move(self, processed: float, spent: float) -> None:
        self._computed += spent
        self._free = max(self._free, processed) + spent
        rtf, lag = self._computed / max(processed, 1e-9), self._free - processed
        self._bar.set_postfix_str(f"rtf {rtf:.2f}, lag {lag:.2f} s", refresh=False)
        self._bar.update(min(processed, self._bar.total) - self._bar.n)
