"""A file of results that are kept when a run is interrupted.

The first line identifies the run; every further line is one result. Results of another run are
never taken over: what differs is named. A line cut short by a crash is dropped and done again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class StateError(ValueError):
    """The file on disk belongs to another run; the message says how the two differ."""


class Journal:
    """Results by key, on disk after every ``put``.

    Args:
        path: JSON-lines file; its folder is created.
        identity: what must be equal for results to be taken over, plain JSON values.
        restart: forget what is there.

    Raises:
        StateError: the file holds results of another run.
    """

    def __init__(self, path: Path, identity: Mapping[str, Any], *, restart: bool = False) -> None:
        self.path = path
        self._results: dict[str, Any] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [] if restart or not path.is_file() else _complete_lines(path)
        if lines:
            _compare(path, lines[0], dict(identity))
            self._results = {line["key"]: line["result"] for line in lines[1:]}
        whole = [dict(identity), *({"key": k, "result": v} for k, v in self._results.items())]
        # Written anew: a line that was cut short must not be continued.
        fresh = path.with_suffix(path.suffix + ".new")
        fresh.write_text("".join(json.dumps(line) + "\n" for line in whole), encoding="utf-8")
        fresh.replace(path)

    def __contains__(self, key: str) -> bool:
        return key in self._results

    def __len__(self) -> int:
        return len(self._results)

    def get(self, key: str) -> Any:
        """Return a result.

        Raises:
            KeyError: it is not there.
        """
        return self._results[key]

    def put(self, key: str, result: Any) -> None:
        """Keep a result of plain JSON values."""
        self.put_all({key: result})

    def put_all(self, results: Mapping[str, Any]) -> None:
        """Keep several results with one write."""
        self._results.update(results)
        lines = (json.dumps({"key": k, "result": v}) + "\n" for k, v in results.items())
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write("".join(lines))


def _complete_lines(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        try:
            item = json.loads(line) if line.endswith("\n") else None
        except ValueError:
            item = None
        if not isinstance(item, dict) or (found and not {"key", "result"} <= item.keys()):
            break
        found.append(item)
    return found


def _compare(path: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    keys = [key for key in {**found, **wanted} if found.get(key) != wanted.get(key)]
    if keys:
        raise StateError(
            f"{path} belongs to another run: "
            + "; ".join(f"{key} was {found.get(key)!r}, is {wanted.get(key)!r}" for key in keys)
            + "; choose another --output, or pass --restart to forget it"
        )
