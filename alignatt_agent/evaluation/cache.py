"""Results on disk, each with the seconds that it took to compute."""

from __future__ import annotations

import hashlib
import pickle
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


class ResultCache:
    """Results under the hash of everything that they depend on; for any thread.

    The file at ``path`` is of this machine's own results. They are pickled: do not open a file that
    somebody else gave you. Results are written ``batch`` by batch; those not written are computed
    again after a crash.
    """

    def __init__(
        self, path: Path, clock: Callable[[], float] = time.perf_counter, batch: int = 100
    ) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._base = sqlite3.connect(path, check_same_thread=False)
        self._lock = threading.RLock()
        self._base.execute("PRAGMA journal_mode=WAL")
        self._base.execute("PRAGMA synchronous=NORMAL")
        self._base.execute(
            "CREATE TABLE IF NOT EXISTS results (key BLOB PRIMARY KEY, value BLOB, seconds REAL)"
        )
        self._base.commit()
        self._clock = clock
        self._batch = batch
        self._pending = 0
        self.spent = 0.0  # seconds that all results took to compute, cached ones included
        self.computed = 0  # results that were not cached

    def __enter__(self) -> ResultCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get_or_compute(self, key: bytes, compute: Callable[[], T]) -> T:
        """Return what is stored under ``key``; compute, time and store it when nothing is."""
        found: T | None = self.get(key)
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

    def get(self, key: bytes) -> Any:
        """Return what is stored under ``key``; ``None`` when nothing is."""
        query = "SELECT value, seconds FROM results WHERE key=?"
        with self._lock:
            found = self._base.execute(query, (key,)).fetchone()
            if found is None:
                return None
            self.spent += found[1]
        return pickle.loads(found[0])

    def put(self, key: bytes, value: object, seconds: float = 0.0) -> None:
        """Store a result, anything but ``None``, that took ``seconds``."""
        row = (key, pickle.dumps(value), seconds)
        with self._lock:
            self._base.execute("INSERT OR REPLACE INTO results VALUES (?, ?, ?)", row)
            self._pending += 1
            if self._pending >= self._batch:
                self.commit()

    def clear(self) -> None:
        """Delete all results."""
        self._base.execute("DELETE FROM results")
        self.commit()

    def commit(self) -> None:
        """Write what was computed to the disk."""
        self._base.commit()
        self._pending = 0

    def close(self) -> None:
        """Commit and close the file."""
        self.commit()
        self._base.close()


def key_of(*parts: str | bytes | int) -> bytes:
    """Hash the parts of a key; their order and borders count."""
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        digest.update(f"{type(part).__name__}{len(data)}:".encode())
        digest.update(data)
    return digest.digest()
