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
    arguments: dict[str, Any] = getattr(multiprocessing.current_process(), "_kwargs", {})
    config = arguments.get("vllm_config")
    folder = os.environ.get(process_files.FOLDER)
    if config is None or folder is None:
        return
    logger = logging.getLogger("vllm")
    # A second call has no effect.
    if not any(isinstance(handler, _Listener) for handler in logger.handlers):
        logger.addHandler(_Listener(Path(folder) / config.instance_id))


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
        if not lines:
            return None
        return str(json.loads(lines[0]))

    def clear(self) -> None:
        """Remove errors that did not stop the engine."""
        self._path.unlink(missing_ok=True)


class _Listener(logging.Handler):
    def __init__(self, path: Path) -> None:
        super().__init__(logging.ERROR)
        self._path = path

    def emit(self, record: logging.LogRecord) -> None:
        if not record.exc_info or record.exc_info[1] is None:
            return
        line = json.dumps(describe(record.exc_info[1])) + "\n"
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line)
        except OSError:  # the owner exited, and its folder was removed
            self.handleError(record)


def describe(error: BaseException) -> str:
    """Describe an error by its root cause."""
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    kind = type(root).__name__
    text = str(root)
    if not text:
        return kind
    return f"{kind}: {text}"


def describe_exit(code: int) -> str:
    """Describe how a process exited; a negative ``code`` is a signal, as in ``multiprocessing``."""
    if code >= 0:
        return f"the process exited with code {code}"
    name = signal.Signals(-code).name
    hint = ""
    if name == "SIGKILL":
        # Linux kills a process with this signal if memory is exhausted.
        hint = ", possibly because memory was exhausted"
    return f"the process was killed by {name}{hint}"
