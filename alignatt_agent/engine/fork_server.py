"""Engines on a CPU begin as forks of one process that has imported vLLM.

vLLM spawns them there, and each imports it for itself: 6 s of a core, three times for a cascade.
With the server a first start takes 0.47 to 0.66 of the time (`lab/bench/cpu/starts`). What speaks
against a plain fork of their owner does not hold for the server: it has one thread and has loaded
no plug-in. On CUDA engines are spawned: not tried there.
"""

from __future__ import annotations

import contextlib
import os
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess

from alignatt_agent.engine import process_files


class EngineProcess(ForkServerProcess):
    """A process that takes from its owner what spawned ones inherit; the server's is older."""

    def start(self) -> None:
        """Ask the server for the process, which is this one's child in all but its parent's id."""
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
        process_files.sign(os.getppid())  # it has a semaphore of joblib's, too
        super().run()


class _Context(ForkServerContext):
    Process = EngineProcess


_context = _Context()


def begin() -> None:
    """Have the server import vLLM while its owner does; harmless when called again."""
    # vLLM looks for its Triton kernels in all modules that are there, and trips over one that its
    # worker's module brings along.
    _context.set_forkserver_preload(["vllm.v1.engine.core"])
    forkserver.ensure_running()


def use() -> None:
    """Have vLLM start the engines of this process there; harmless when called again."""
    from vllm.v1.engine import utils

    begin()
    utils.get_mp_context = lambda: _context
