"""Engines on a CPU start as forks of one process that has imported vLLM.

vLLM spawns them, and each imports vLLM for itself: 6 s of a core, three times for a cascade. A
plain fork of the owner is unsafe; the server has one thread and has loaded no plug-in. On CUDA
engines are spawned: the server was not tested there.
"""

import contextlib
import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from functools import partial
from multiprocessing import connection, forkserver, resource_tracker
from types import SimpleNamespace
from typing import Any

from alignatt_agent.engine import plugin, process_files

_CONTEXT = multiprocessing.get_context("forkserver")


class EngineProcess:
    """A process with the current environment and niceness of its owner, not of the server.

    Several threads may ask for its exit code. It can be read once: without the lock, the thread
    that comes second would store 255 instead. `multiprocessing` itself reads the codes of all
    children, without this lock, when another one starts.
    """

    def __init__(self, target: Callable[..., None], **options: Any) -> None:
        niceness = os.getpriority(os.PRIO_PROCESS, 0)
        run = partial(_run, os.getpid(), niceness, dict(os.environ), target)
        self._process = _CONTEXT.Process(target=run, **options)
        self._reading = threading.RLock()  # a finalizer of vLLM also calls this

    def __getattr__(self, name: str) -> Any:
        with self._reading:
            return getattr(self._process, name)

    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self.pid is not None and self.exitcode is None

    def join(self, timeout: float | None = None) -> None:
        """Wait until the process has ended."""
        connection.wait([self.sentinel], timeout)
        with self._reading:
            self._process.join(0)


def _run(
    owner: int, niceness: int, environment: dict[str, str], target: Callable[..., None], /,
    *arguments: Any, **named: Any,
) -> None:  # fmt: skip
    """Run the target of a process inside that process."""
    # Only what differs: without its first variable a process cannot set its title.
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update(environment.items() - os.environ.items())
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, niceness)
    plugin.watch(owner)  # vLLM waits 5 min for it
    gc.freeze()  # vLLM collects garbage five times, which takes 1.5 s with the server's objects
    process_files.sign(os.getppid())  # it also holds a semaphore of joblib
    target(*arguments, **named)


def begin() -> None:
    """Let the server import vLLM in parallel with its owner; calling it again has no effect."""
    # Not our own worker's module: vLLM looks for Triton kernels in all loaded modules, and fails on
    # one that it imports.
    _CONTEXT.set_forkserver_preload(["vllm.v1.engine.core", "vllm.v1.worker.cpu_worker"])
    # Ctrl-C is for the owner, which ends its engines; they inherit this. The start of the tracker
    # would undo it.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    # Exported, but not documented: the documented API starts the server with its first process.
    forkserver.ensure_running()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def use() -> None:
    """Let vLLM start the engines of this process in the server; calling it again has no effect."""
    from vllm.v1.engine import utils

    begin()
    context = SimpleNamespace(Process=EngineProcess, Queue=_CONTEXT.Queue)  # all that vLLM uses
    utils.get_mp_context = lambda: context
