"""Manage the folder for the engines' files, which the owner process or a later owner removes."""

import atexit
import functools
import json
import logging
import os
import shutil
import socket
import tempfile
from pathlib import Path

import psutil

from alignatt_agent.config.cache_folders import cache_folder, user_cache
from alignatt_agent.types import EngineError

LOGGER = logging.getLogger(__name__)

FOLDER = "ALIGNATT_ENGINE_FOLDER"
"""Environment variable that contains the path of the engines' folder."""

SHARED_MEMORY = "/dev/shm"
"""Folder of shared memory and semaphores on Linux."""

_CACHES = {
    "VLLM_CACHE_ROOT": "vllm",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "triton",
}
"""Variables that name the folders of the engines' caches, and a subfolder for each."""

_PREFIX = "alignatt-engines-"

_OWNER = "owner.json"


@functools.cache
def folder() -> str:
    """Return the folder for the sockets and crash reports of this process's engines."""
    remove_abandoned()
    path = tempfile.mkdtemp(prefix=_PREFIX)
    owner = [_machine(), os.getpid(), psutil.Process().create_time()]
    (Path(path) / _OWNER).write_text(json.dumps(owner))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def check_shared_memory() -> None:
    """Reject a machine on which engines cannot create shared memory."""
    try:
        with tempfile.NamedTemporaryFile(dir=SHARED_MEMORY):
            pass
    except OSError as error:
        raise EngineError(
            f"{SHARED_MEMORY} is not writable ({error.strerror}), but vLLM's processes need it for "
            "shared memory: mount it as a writable tmpfs"
        ) from error


def cache_environment() -> dict[str, str]:
    """Return variables that move the engines' caches, if the user's cache is not writable.

    vLLM would log tracebacks and compile again at each start.

    Raises:
        ConfigError: there is no folder for caches.
    """
    vllm_cache = Path(os.environ.get("VLLM_CACHE_ROOT") or user_cache() / "vllm")
    for cache in (vllm_cache, cache_folder()):
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=cache):
                pass
        except OSError as error:
            LOGGER.warning(
                "%s is not writable (%s), so compiled code is not kept; set XDG_CACHE_HOME to a "
                "writable folder",
                cache,
                error.strerror,
            )
            return {name: str(Path(folder(), "cache", part)) for name, part in _CACHES.items()}
    return {}


def remove_abandoned() -> None:
    """Remove the folders of owners that have exited."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            machine, owner, begun = json.loads((path / _OWNER).read_text())
        except (OSError, ValueError):  # the folder is another user's, or is incomplete
            continue
        # Containers may share the folder, and process ids of another container mean nothing here.
        if machine == _machine() and not _runs(owner, begun):
            shutil.rmtree(path, ignore_errors=True)


def _machine() -> str:
    """Identify the process-id namespace, because containers may share a folder and a host name."""
    return f"{socket.gethostname()} {Path('/proc/self/ns/pid').readlink()}"


def _runs(process: int, begun: float) -> bool:
    """Return whether a process is still running; a later process may have the same id."""
    try:
        running = psutil.Process(process)
        return bool(running.create_time() == begun and running.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
