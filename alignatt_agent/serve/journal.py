"""An append-only journal with one file per talk, so that talks survive a restart.

The first line of a file contains the talk's room and key. The other lines are events for viewers
and states (``Tail``) from which the talk can be resumed. The file is deleted when the server
discards the talk. A thread writes the files, so a slow disk does not block the event loop.
"""

import logging
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile

from alignatt_agent.config.errors import ConfigError
from alignatt_agent.serve.messages import LINE, Key, Message

LOGGER = logging.getLogger(__name__)


class Journal:
    """A journal in a folder that one server uses at a time; without a folder, it writes nothing."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder: Path | None = None
        self._broken: set[str] = set()
        self._writer = ThreadPoolExecutor(1, "journal")  # one thread preserves the order of lines
        if folder is not None:
            _require_writable(folder)
            self.folder = folder.absolute()

    def append(self, talk: str, *lines: str) -> Future[None] | None:
        """Start appending lines; if the process is killed, all or none of them are written."""
        if self.folder is None:
            return None
        data = "\n".join([*lines, ""]).encode()
        return self._writer.submit(self._write, talk, self.folder / f"{talk}.jsonl", data)

    def stores(self, talk: str) -> bool:
        """Return whether all lines of a talk so far could be written."""
        return self.folder is not None and talk not in self._broken

    def forget(self, talk: str) -> None:
        """Delete the file of a talk."""
        if self.folder is not None:
            self._writer.submit((self.folder / f"{talk}.jsonl").unlink, missing_ok=True)

    def flush(self) -> None:
        """Wait until all lines are written."""
        self._writer.submit(int).result()

    def talks(self) -> Iterator[tuple[str, Key, list[Message], float]]:
        """Yield talks, oldest first: name, key, messages, and Unix time of the last line.

        Incomplete last lines are removed.
        """
        if self.folder is None:
            return
        files = self.folder.glob("*.jsonl")
        for path in sorted(files, key=lambda path: path.stat().st_mtime_ns):
            # Truncating the file changes its time.
            written = path.stat().st_mtime
            data = path.read_bytes()
            length = data.rfind(b"\n") + 1
            lines = data[:length].splitlines()
            if not lines:
                continue
            try:
                key = Key.model_validate_json(lines[0])
                messages = [LINE.validate_json(line) for line in lines[1:]]
            except ValueError as error:
                # Pydantic's errors have several lines.
                LOGGER.error("skipped %s: %s", path, " ".join(str(error).split()))
            else:
                # Only now: a file of this name that is no journal is not changed.
                os.truncate(path, length)
                yield path.stem, key, messages, written

    def _write(self, talk: str, path: Path, data: bytes) -> None:
        if talk in self._broken:
            return
        try:
            with open(path, "ab", opener=partial(os.open, mode=0o600)) as file:
                file.write(data)
        except OSError as error:
            # Later lines are useless without this one.
            self._broken.add(talk)
            LOGGER.error("cannot write the journal of a talk; the talk continues: %s", error)


def _require_writable(folder: Path) -> None:
    """Create the folder if necessary, and a file in it, which is removed.

    Raises:
        ConfigError: the folder cannot be created, or nothing can be written into it.
    """
    try:
        folder.mkdir(0o700, parents=True, exist_ok=True)
        TemporaryFile(dir=folder).close()
    except OSError as error:
        problem = f"{error.strerror}: expected a writable folder"
        raise ConfigError(f"--journal {folder}: {problem}") from None
