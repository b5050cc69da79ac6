"""An on-disk cache of results."""

from __future__ import annotations

import hashlib
import pickle
import sqlite3
from pathlib import Path
from typing import Any


class ResultCache:
    """Results keyed by a hash of their inputs; each result is written immediately.

    Results are pickled, so do not open untrusted files. Without a ``path``, results are lost when
    the process exits.
    """

    def __init__(self, path: Path | None) -> None:
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        # Without an isolation level, each statement is a transaction and is written immediately.
        self._base = sqlite3.connect(path or "", isolation_level=None, check_same_thread=False)
        # With the next two settings, a write does not wait for the disk; a power failure can lose
        # recent results.
        self._base.execute("PRAGMA journal_mode=WAL")
        self._base.execute("PRAGMA synchronous=NORMAL")
        self._base.execute("CREATE TABLE IF NOT EXISTS results (key BLOB PRIMARY KEY, value BLOB)")

    def __enter__(self) -> ResultCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, key: bytes) -> Any:
        """Return the result that is stored under ``key``, or ``None`` if there is none."""
        query = "SELECT value FROM results WHERE key=?"
        row = self._base.execute(query, (key,)).fetchone()
        if row is None:
            return None
        return pickle.loads(row[0])

    def put(self, key: bytes, value: object) -> None:
        """Store a result, which must not be ``None``."""
        row = (key, pickle.dumps(value))
        self._base.execute("INSERT OR REPLACE INTO results VALUES (?, ?)", row)

    def close(self) -> None:
        """Close the database."""
        self._base.close()


def key_of(*parts: str | bytes | int) -> bytes:
    """Hash the parts of a key; the hash depends on their order and boundaries."""
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        # With type and length, no two lists of parts have the same bytes.
        digest.update(f"{type(part).__name__}{len(data)}:".encode())
        digest.update(data)
    return digest.digest()
