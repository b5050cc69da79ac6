"""Files of engine processes; removed with their owner or, after a kill, by the next owner."""

import atexit
import contextlib
import functools
import itertools
import json
import os
import shutil
import socket
import tempfile
from pathlib import Path

import psutil

FOLDER = "ALIGNATT_ENGINE_FOLDER"
"""Environment variable with the folder of an owner's engines."""

_PREFIX, _OWNER, _ENGINE = "alignatt-engines-", "owner.json", "engine-"
_SEMAPHORES = Path("/dev/shm")


@functools.cache
def folder() -> str:
    """Folder of this process's engines, with their sockets and crash reports.

    A killed process cannot remove its folder; the next process on the same machine does.
    """
    remove_abandoned()
    path = tempfile.mkdtemp(prefix=_PREFIX)
    owner = [_machine(), os.getpid(), psutil.Process().create_time()]
    (Path(path) / _OWNER).write_text(json.dumps(owner))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def sign(process: int) -> None:
    """Record an engine process in the owner's folder."""
    if where := os.environ.get(FOLDER):
        with contextlib.suppress(OSError):  # the owner has ended, and its folder was removed
            (Path(where) / f"{_ENGINE}{process}").touch()


def remove_abandoned() -> None:
    """Remove folders whose owners and engines have ended, and the semaphores of those processes.

    joblib, which vLLM imports, creates a semaphore in every process and removes it at the end; Ray
    kills the process that would remove it.
    """
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            machine, owner, begun = json.loads((path / _OWNER).read_text())
        except (OSError, ValueError):  # another user's, or still being created
            continue
        engines = [int(file.name.removeprefix(_ENGINE)) for file in path.glob(f"{_ENGINE}*")]
        if machine != _machine() or _runs(owner, begun) or any(map(_runs, engines)):
            continue
        for process in itertools.filterfalse(_runs, (owner, *engines)):  # ids are reused
            for semaphore in _SEMAPHORES.glob(f"sem.loky-{process}-*"):
                semaphore.unlink(missing_ok=True)
        shutil.rmtree(path, ignore_errors=True)


def _machine() -> str:
    """Identify the scope of process ids: containers may share a folder and a host name."""
    return f"{socket.gethostname()} {Path('/proc/self/ns/pid').readlink()}"


def _runs(process: int, begun: float | None = None) -> bool:
    try:
        found = psutil.Process(process)
        ended = found.status() == psutil.STATUS_ZOMBIE
        return not ended and begun in (None, found.create_time())
    except psutil.NoSuchProcess:
        return False
