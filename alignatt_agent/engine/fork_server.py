"""Engines on a CPU start as forks of one process that has imported vLLM.

vLLM spawns them, and each imports vLLM for itself: 6 s of a core, three times for a cascade. A
plain fork of the owner is unsafe; the server has one thread and has loaded no plug-in. On CUDA
engines are spawned: the server was not tried there.
"""

import contextlib
import gc
import os
import signal
import threading
from multiprocessing import connection, forkserver, popen_forkserver, resource_tracker
from multiprocessing.context import ForkServerContext, ForkServerProcess
from multiprocessing.process import BaseProcess

from alignatt_agent.engine import plugin, process_files


class _Fork(popen_forkserver.Popen):
    """A process whose exit code several threads may ask for.

    It can be read once; the thread that comes second would store 255 in its place.
    """

    def __init__(self, process_obj: BaseProcess) -> None:
        self._reading = threading.Lock()
        super().__init__(process_obj)

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        """Return the exit code, or ``None`` while it runs; wait for it if ``flag`` is 0."""
        if flag != os.WNOHANG:
            connection.wait([self.sentinel])
        with self._reading:
            code: int | None = super().poll(os.WNOHANG)
            return code


class EngineProcess(ForkServerProcess):
    """A process with the present environment and niceness of its owner, not of the server."""

    _Popen = staticmethod(_Fork)

    def start(self) -> None:
        """Have the server fork the process."""
        self._environment = dict(os.environ)
        self._niceness = os.getpriority(os.PRIO_PROCESS, 0)
        super().start()

    def run(self) -> None:
        """Run the target, in the new process."""
        # Only what differs: without its first variable a process cannot set its title.
        for name in os.environ.keys() - self._environment.keys():
            del os.environ[name]
        os.environ.update(self._environment.items() - os.environ.items())
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, self._niceness)
        plugin.watch(self._parent_pid)  # type: ignore[attr-defined]  # vLLM waits 5 min for it
        gc.freeze()  # vLLM collects garbage five times: 1.5 s for objects of the server
        process_files.sign(os.getppid())  # it has a semaphore of joblib's, too
        super().run()


class _Context(ForkServerContext):
    Process = EngineProcess


_context = _Context()


def begin() -> None:
    """Have the server import vLLM while its owner does; harmless when called again."""
    # Not our own worker's module: vLLM looks for Triton kernels in all loaded modules, and fails on
    # one that it imports.
    _context.set_forkserver_preload(["vllm.v1.engine.core", "vllm.v1.worker.cpu_worker"])
    # Ctrl-C is for the owner, which ends its engines; they inherit this. The start of the tracker
    # would undo it.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    forkserver.ensure_running()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def use() -> None:
    """Have vLLM start the engines of this process there; harmless when called again."""
    from vllm.v1.engine import utils

    begin()
    utils.get_mp_context = lambda: _context
