"""One progress bar per talk, fed by the metrics log that the harness writes anyway."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tqdm import tqdm


class TalkProgress(logging.Filter):
    """Lets every record pass and moves a bar.

    A filter, because ``simulstream.inference.main`` removes all handlers from its logger. It runs
    after a chunk's computation time was taken, so bars do not count as computation.

    Args:
        seconds: length of each talk by the stem of its WAV file.
        label: shown in front of the talk's name.
    """

    def __init__(self, seconds: Mapping[str, float], label: str) -> None:
        super().__init__()
        self._seconds = seconds
        self._label = label
        self._bar: Any = None
        self._computed = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        """Look at one line of the metrics log."""
        line = json.loads(record.getMessage())
        if "metadata" in line:
            self.close()
            stem = Path(line["metadata"]["wav_name"]).stem
            self._computed = 0.0
            self._bar = tqdm(
                total=self._seconds.get(stem, 0.0),
                desc=f"{self._label} {stem}",
                unit="s",
                bar_format="{desc:<24} {percentage:3.0f}%|{bar:30}| {n:.1f}/{total:.1f} s "
                "[{elapsed}{postfix}]",
                mininterval=0.5 if sys.stderr.isatty() else 10,
            )
        elif self._bar is not None and "total_audio_processed" in line:
            self._computed += line["computation_time"]
            heard = line["total_audio_processed"]
            self._bar.set_postfix_str(f"rtf {self._computed / max(heard, 1e-9):.2f}", refresh=False)
            self._bar.update(min(heard, self._bar.total) - self._bar.n)
        return True

    def close(self) -> None:
        """Finish the current bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
