"""Manage the folder for the engines' files, which the owner process or a later owner removes."""

import atexit
import functools
import json
import os
import shutil
import socket
import tempfile
from pathlib import Path

import psutil

FOLDER = "ALIGNATT_ENGINE_FOLDER"
"""Environment variable that contains the path of the engines' folder."""

_PREFIX, _OWNER = "alignatt-engines-", "owner.json"


@functools.cache
def folder() -> str:
    """Return the folder for the sockets and crash reports of this process's engines."""
    remove_abandoned()
    path = tempfile.mkdtemp(prefix=_PREFIX)
    owner = [_machine(), os.getpid(), psutil.Process().create_time()]
    (Path(path) / _OWNER).write_text(json.dumps(owner))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def remove_abandoned() -> None:
    """Remove the folders of owners that have exited."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            machine, owner, begun = json.loads((path / _OWNER).read_text())
        except (OSError, ValueError):  # the folder is another user's, or is incomplete
            continue
        if machine == _machine() and not _runs(owner, begun):
            shutil.rmtree(path, ignore_errors=True)


def _machine() -> str:
    """Identify the process-id namespace, because containers may share a folder and a host name."""
    return f"{socket.gethostname()} {Path('/proc/self/ns/pid').readlink()}"


def _runs(process: int, begun: float) -> bool:
    """Return whether a process is still running; a later process may have the same id."""
    try:
        found = psutil.Process(process)
        return bool(found.create_time() == begun and found.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
