"""Start engines on a CPU as forks of one process that has imported vLLM.

vLLM would spawn engines, and each would spend 6 core-seconds on importing vLLM. Forking the owner
is unsafe, but the fork server has only one thread and no loaded plug-in. On CUDA, engines are
spawned, because the fork server has not been tested there.
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

from alignatt_agent.engine import plugin

_CONTEXT = multiprocessing.get_context("forkserver")


class EngineProcess:
    """A process with the environment and niceness of its owner instead of the fork server's.

    Several threads may request its exit code, which can be read only once: without the lock, the
    second thread would store 255. When another child starts, `multiprocessing` reads the exit codes
    of all children without this lock.
    """

    def __init__(self, target: Callable[..., None], **options: Any) -> None:
        niceness = os.getpriority(os.PRIO_PROCESS, 0)
        run = partial(_run, os.getpid(), niceness, dict(os.environ), target)
        self._process = _CONTEXT.Process(target=run, **options)
        self._reading = threading.RLock()  # a finalizer of vLLM also reads the exit code

    def __getattr__(self, name: str) -> Any:
        with self._reading:
            return getattr(self._process, name)

    def is_alive(self) -> bool:
        """Whether the process is running."""
        return self.pid is not None and self.exitcode is None

    def join(self, timeout: float | None = None) -> None:
        """Wait until the process exits, for at most ``timeout`` seconds."""
        connection.wait([self.sentinel], timeout)
        with self._reading:
            self._process.join(0)


def _run(
    owner: int, niceness: int, environment: dict[str, str], target: Callable[..., None], /,
    *arguments: Any, **named: Any,
) -> None:  # fmt: skip
    """Run ``target`` in the new process."""
    # Set only variables that differ: without its first variable, a process cannot set its title.
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update(environment.items() - os.environ.items())
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, niceness)
    plugin.watch(owner)  # vLLM would wait 5 min for a dead owner
    gc.freeze()  # vLLM collects garbage five times, which takes 1.5 s with the server's objects
    target(*arguments, **named)


def begin() -> None:
    """Start the fork server, which imports vLLM in parallel; a second call has no effect."""
    # The module of our own worker is not preloaded: vLLM searches all loaded modules for Triton
    # kernels, and fails on a module that is being imported.
    _CONTEXT.set_forkserver_preload(["vllm.v1.engine.core", "vllm.v1.worker.cpu_worker"])
    # Only the owner handles Ctrl-C and stops its engines, which inherit the blocked signal. The
    # resource tracker starts first, because starting it would unblock the signal.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    # This function is public but undocumented. The documented API starts the server only with the
    # first process.
    forkserver.ensure_running()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def use() -> None:
    """Make vLLM start this process's engines in the fork server; a second call has no effect."""
    from vllm.v1.engine import utils

    begin()
    context = SimpleNamespace(Process=EngineProcess, Queue=_CONTEXT.Queue)  # vLLM uses only these
    utils.get_mp_context = lambda: context
