"""Results on disk that cost the seconds that they took to compute."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from alignatt_agent.evaluation.cache import ResultCache

T = TypeVar("T")


class TimedCache(ResultCache):
    """Results with their seconds; for any thread."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.perf_counter) -> None:
        super().__init__(path)
        self._lock = threading.Lock()
        self._clock = clock
        self.spent = 0.0  # seconds that all results took to compute, cached ones included
        self.computed = 0  # results that were not cached

    def get_or_compute(self, key: bytes, compute: Callable[[], T]) -> T:
        """Return what is stored under ``key``; compute, time and store it when nothing is."""
        found: T | None
        with self._lock:
            found, seconds = self.timed(key)
            self.spent += seconds
        if found is not None:
            return found
        begin = self._clock()
        value = compute()
        seconds = self._clock() - begin
        with self._lock:
            self.put(key, value, seconds)
            self.computed += 1
            self.spent += seconds
        return value
