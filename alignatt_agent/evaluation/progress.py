"""One progress bar per talk, fed by the metrics log that the harness writes anyway."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

if TYPE_CHECKING:
    from alignatt_agent.evaluation.trace import Recorder


class TalkProgress(logging.Filter):
    """Lets every record pass and moves a bar.

    A filter, because ``simulstream.inference.main`` removes all handlers from its logger. It runs
    after a chunk's computation time was taken, so bars do not count as computation.

    The bar shows the real-time factor, and the lag by the clock as it would be if the audio came in
    real time: the wait behind earlier chunks plus the computation of the latest one.

    Args:
        seconds: length of each talk by the stem of its WAV file.
        label: shown in front of the talk's name.
        recorder: is told which talk begins.
    """

    def __init__(
        self, seconds: Mapping[str, float], label: str, recorder: Recorder | None = None
    ) -> None:
        super().__init__()
        self._seconds = seconds
        self._label = label
        self._recorder = recorder
        self._bar: Any = None
        self._computed = 0.0
        self._free = 0.0  # when the latest chunk would be done, by the clock

    def filter(self, record: logging.LogRecord) -> bool:
        """Look at one line of the metrics log."""
        line = json.loads(record.getMessage())
        if "metadata" in line:
            self._begin(Path(line["metadata"]["wav_name"]).stem)
        elif self._bar is not None and "total_audio_processed" in line:
            heard, spent = line["total_audio_processed"], line["computation_time"]
            self._computed += spent
            self._free = max(self._free, heard) + spent
            self._bar.set_postfix_str(
                f"rtf {self._computed / max(heard, 1e-9):.2f}, lag {self._free - heard:.2f} s",
                refresh=False,
            )
            self._bar.update(min(heard, self._bar.total) - self._bar.n)
        return True

    def close(self) -> None:
        """Finish the current bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _begin(self, talk: str) -> None:
        self.close()
        if self._recorder is not None:
            self._recorder.talk = talk
        self._computed = self._free = 0.0
        self._bar = tqdm(
            total=self._seconds.get(talk, 0.0),
            desc=f"{self._label} {talk}",
            unit="s",
            bar_format="{desc:<24} {percentage:3.0f}%|{bar:30}| {n:.1f}/{total:.1f} s "
            "[{elapsed}{postfix}]",
            mininterval=0.5 if sys.stderr.isatty() else 10,
        )
