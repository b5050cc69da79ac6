"""Which recording a stream is: Simulstream writes it into its log and tells no processor."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from simulstream.metrics.logger import METRICS_LOGGER

if TYPE_CHECKING:
    from alignatt_agent.agent import AlignAttAgent


class TalkNames(logging.Filter):
    """Reads the names of recordings in Simulstream's log.

    The line follows, in the same thread, directly on the client's choice of languages; without
    one there is a single processor.

    Attributes:
        addressed: the processor that a client spoke to last.
    """

    addressed: AlignAttAgent | None = None

    def follow(self) -> None:
        """Begin to read the log; again does nothing."""
        METRICS_LOGGER.addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Look at one line of the log."""
        line = json.loads(record.getMessage())
        if "metadata" in line and self.addressed is not None:
            self.addressed.talk = Path(str(line["metadata"].get("wav_name", ""))).stem
        return True


TALK_NAMES = TalkNames()
