"""Stream one target language through the official harness, in this process."""

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
from simulstream.metrics.logger import METRICS_LOGGER
from simulstream.server.message_processor import MessageProcessor
from tqdm import tqdm

from alignatt_agent.evaluation.plan import EvalRun
from alignatt_agent.evaluation.trace import Recorder
from alignatt_agent.types import EngineError


def run_stream(run: EvalRun, paced: bool = False, progress: bool = True) -> None:
    """Stream a prepared run; errors that the harness hides are raised at the end.

    Raises:
        EngineError: chunks failed, so the output is incomplete.
    """
    files = run.files
    runtime = run.agent_class.runtime
    earlier_failures = len(runtime.failures)
    arguments = Namespace(
        speech_processor_config=str(files.config),
        wav_list_file=str(files.wavs),
        tgt_lang=run.target,
        src_lang=run.source,
        metrics_log_file=str(files.metrics),
    )
    with ExitStack() as stack:
        records = stack.enter_context(files.records.open("w", encoding="utf-8"))
        recorder = Recorder(records)
        runtime.observer = recorder
        stack.callback(setattr, runtime, "observer", None)
        watcher = _LogWatcher(run, recorder, progress)
        stack.enter_context(_logged(watcher))
        if paced:
            # The harness offers no setting for this, so its processor of messages is replaced.
            watcher.clock = stack.enter_context(files.clock.open("w", encoding="utf-8"))
            stack.callback(setattr, inference, "MessageProcessor", MessageProcessor)
            inference.MessageProcessor = _PacedMessages
        inference.main(arguments)
    failures = runtime.failures[earlier_failures:]
    if failures:
        raise EngineError(
            f"{len(failures)} error(s) while streaming; the output is incomplete: "
            + "; ".join(failures)
        )


class _PacedMessages(MessageProcessor):  # type: ignore[misc]  # simulstream is untyped
    """Delays each chunk until its audio would arrive in real time."""

    def process_metadata(self, metadata: dict[str, Any]) -> None:
        super().process_metadata(metadata)
        self._begin = time.monotonic()
        self._bytes = 0

    def process_speech(self, speech_data: bytes) -> Any:
        self._bytes += len(speech_data)
        arrived = self._begin + self._bytes / 2 / self.sample_rate  # 16-bit samples
        time.sleep(max(0.0, arrived - time.monotonic()))
        return super().process_speech(speech_data)


@contextmanager
def _logged(watcher: _LogWatcher) -> Iterator[None]:
    """Make the harness write its log, and pass each line to ``watcher``."""
    # Without its own level, the logger inherits the root level; at WARNING, the log stays empty.
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
    """Reads the harness's log to set the recorder's talk, update a progress bar and record times.

    This is a filter because ``simulstream.inference.main`` removes all handlers from its logger.
    It runs after a chunk's computation time is measured, so this time excludes the progress bar.
    """

    def __init__(self, run: EvalRun, recorder: Recorder, progress: bool) -> None:
        super().__init__()
        self._lengths = {talk.name: talk.seconds for talk in run.devset.talks}
        self._label = run.target
        self._recorder = recorder
        self._progress = progress
        self._bar: Any = None
        self.clock: TextIO | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        """Read one line of the log; the line itself is logged unchanged."""
        line = json.loads(record.getMessage())
        if "metadata" in line:
            self._begin(Path(line["metadata"]["wav_name"]).stem)
        elif "total_audio_processed" in line:
            self._move(line["total_audio_processed"], line["computation_time"])
        return True

    def close(self) -> None:
        """Close the current progress bar."""
        if self._bar is not None:
            self._bar.close()

    def _begin(self, talk: str) -> None:
        self.close()
        self._recorder.talk = talk
        self._talk = talk
        self._started = time.monotonic()
        self._computed = 0.0
        self._free = 0.0  # completion time of the latest chunk if audio arrived in real time
        self._bar = tqdm(
            total=self._lengths.get(talk, 0.0),
            desc=f"{self._label} {talk}",
            unit="s",
            bar_format="{desc:<24} {percentage:3.0f}%|{bar:30}| {n:.1f}/{total:.1f} s "
            "[{elapsed}{postfix}]",
            # In a file, each update is a line of its own.
            mininterval=0.5 if sys.stderr.isatty() else 10,
            disable=not self._progress,
        )

    def _move(self, processed: float, spent: float) -> None:
        if self.clock is not None:
            done_s = time.monotonic() - self._started
            line = {"talk": self._talk, "audio_s": processed, "done_s": done_s}
            self.clock.write(json.dumps(line) + "\n")
        self._computed += spent
        self._free = max(self._free, processed) + spent
        rtf = self._computed / max(processed, 1e-9)
        lag = self._free - processed
        self._bar.set_postfix_str(f"rtf {rtf:.2f}, lag {lag:.2f} s", refresh=False)
        self._bar.update(min(processed, self._bar.total) - self._bar.n)
