"""Files of engine processes; removed with their owner, or by the next owner after a kill."""

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
    """Folder of this process' engines, with their sockets and crash reports.

    A killed process cannot remove its own; the next one on the same machine does.
    """
    remove_abandoned()
    path = tempfile.mkdtemp(prefix=_PREFIX)
    owner = [_machine(), os.getpid(), psutil.Process().create_time()]
    (Path(path) / _OWNER).write_text(json.dumps(owner))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def sign(process: int) -> None:
    """Note an engine process in the owner's folder."""
    if where := os.environ.get(FOLDER):
        with contextlib.suppress(OSError):  # the owner is gone, and the folder with it
            (Path(where) / f"{_ENGINE}{process}").touch()


def remove_abandoned() -> None:
    """Remove folders whose owners and engines are gone, and the semaphores of those processes.

    joblib, which vLLM imports, makes one in every process and removes it when that ends; Ray kills
    what would remove it.
    """
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            machine, owner, begun = json.loads((path / _OWNER).read_text())
        except (OSError, ValueError):  # another user's, or just being made
            continue
        engines = [int(file.name.removeprefix(_ENGINE)) for file in path.glob(f"{_ENGINE}*")]
        if machine != _machine() or _runs(owner, begun) or any(map(_runs, engines)):
            continue
        for process in itertools.filterfalse(_runs, (owner, *engines)):  # ids are given again
            for semaphore in _SEMAPHORES.glob(f"sem.loky-{process}-*"):
                semaphore.unlink(missing_ok=True)
        shutil.rmtree(path, ignore_errors=True)


def _machine() -> str:
    """Name the scope of process ids: containers may share a folder and a host name."""
    return f"{socket.gethostname()} {Path('/proc/self/ns/pid').readlink()}"


def _runs(process: int, begun: float | None = None) -> bool:
    try:
        found = psutil.Process(process)
        ended = found.status() == psutil.STATUS_ZOMBIE
        return not ended and begun in (None, found.create_time())
    except psutil.NoSuchProcess:
        return False
