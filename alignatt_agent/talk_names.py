"""Names of recordings, which Simulstream passes to its log only, not to its processors."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Protocol

from simulstream.metrics.logger import METRICS_LOGGER


class _Named(Protocol):
    talk: str


class TalkNames(logging.Filter):
    """Reads the names of recordings in Simulstream's log.

    The line follows directly, in the same thread, on the client's choice of languages; without a
    choice there is a single processor. ``addressed`` is the latest processor of a client.
    """

    addressed: _Named | None = None

    def follow(self) -> None:
        """Begin to read the log; a second call does nothing."""
        METRICS_LOGGER.addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Read one line of the log."""
        line = json.loads(record.getMessage())
        if "metadata" in line and self.addressed is not None:
            self.addressed.talk = Path(str(line["metadata"].get("wav_name", ""))).stem
        return True


TALK_NAMES = TalkNames()
