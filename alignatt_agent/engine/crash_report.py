"""Report why an engine failed, from the errors that its processes log.

vLLM logs an error in the failing process, but only notifies the engine's owner that it occurred.
Our plug-in runs in each engine process and writes the error to a file named after the engine.
"""

import json
import logging
import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

from alignatt_agent.engine import process_files


def listen() -> None:
    """Write the errors that vLLM logs in this process to a file that the engine's owner reads."""
    # A plug-in has no other way to identify the engine of its process.
    given: dict[str, Any] = getattr(multiprocessing.current_process(), "_kwargs", {})
    config, where = given.get("vllm_config"), os.environ.get(process_files.FOLDER)
    if config is not None and where is not None:
        logger = logging.getLogger("vllm")
        if not any(isinstance(handler, _Listener) for handler in logger.handlers):
            logger.addHandler(_Listener(Path(where) / config.instance_id))


class CrashReport:
    """Errors of an engine's processes; ``engine`` is the ``instance_id`` of its ``VllmConfig``."""

    def __init__(self, engine: str) -> None:
        self._path = Path(process_files.folder()) / engine

    def first(self) -> str | None:
        """Return the first error since ``clear``, or ``None``; later errors result from it."""
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return None
        return str(json.loads(lines[0])) if lines else None

    def clear(self) -> None:
        """Remove errors that did not stop the engine."""
        self._path.unlink(missing_ok=True)


class _Listener(logging.Handler):
    def __init__(self, path: Path) -> None:
        super().__init__(logging.ERROR)
        self._path = path

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            try:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(describe(error)) + "\n")
            except OSError:  # the owner exited, and its folder was removed
                self.handleError(record)


def describe(error: BaseException) -> str:
    """Describe an error by its root cause."""
    seen = error
    while seen.__cause__ is not None:
        seen = seen.__cause__
    return f"{type(seen).__name__}: {seen}" if str(seen) else type(seen).__name__


def describe_exit(code: int) -> str:
    """Describe how a process exited; a negative ``code`` is a signal, as in ``multiprocessing``."""
    if code >= 0:
        return f"the process exited with code {code}"
    name = signal.Signals(-code).name
    hint = ", possibly because memory was exhausted" if name == "SIGKILL" else ""
    return f"the process was killed by {name}{hint}"
