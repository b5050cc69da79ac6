"""Results of engines on disk, each with the seconds that it took to compute."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path


class Memo:
    """Remembers results under the hash of everything that they depend on.

    Recalling a result costs the seconds that computing it once took: so a run that only recalls
    has the computation time of one that computes.

    Args:
        path: database file; created when it is missing.
        clock: a clock in seconds.
        batch: results per transaction; what is not committed is computed again after a crash.

    Attributes:
        spent: seconds of all results since it was last set to 0.
        computed: number of results that had to be computed.
    """

    def __init__(
        self, path: Path, clock: Callable[[], float] = time.perf_counter, batch: int = 100
    ) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._base = sqlite3.connect(path)
        self._base.execute("PRAGMA journal_mode=WAL")
        self._base.execute("PRAGMA synchronous=NORMAL")
        self._base.execute(
            "CREATE TABLE IF NOT EXISTS memo (key BLOB PRIMARY KEY, value BLOB, seconds REAL)"
        )
        self._base.commit()
        self._clock = clock
        self._batch = batch
        self._pending = 0
        self.spent = 0.0
        self.computed = 0

    def recall(self, key: bytes, compute: Callable[[], bytes]) -> bytes:
        """Return what is stored under ``key``; compute, time and store it when nothing is."""
        found = self._base.execute("SELECT value, seconds FROM memo WHERE key=?", (key,)).fetchone()
        if found is None:
            begin = self._clock()
            value = compute()
            found = value, self._clock() - begin
            self._base.execute("INSERT OR REPLACE INTO memo VALUES (?, ?, ?)", (key, *found))
            self.computed += 1
            self._pending += 1
            if self._pending >= self._batch:
                self.commit()
        self.spent += found[1]
        return bytes(found[0])

    def commit(self) -> None:
        """Write what was computed to the disk."""
        self._base.commit()
        self._pending = 0

    def close(self) -> None:
        """Commit and close the file."""
        self.commit()
        self._base.close()


def key_of(*parts: str | bytes | int) -> bytes:
    """Hash parts of a key; their order and borders count."""
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        digest.update(f"{type(part).__name__}{len(data)}:".encode())
        digest.update(data)
    return digest.digest()
