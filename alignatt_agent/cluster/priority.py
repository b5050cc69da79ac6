"""Start engines at the lowest priority, so that running engines are not slowed down."""

import contextlib
import os
from collections.abc import Iterator

import psutil

LAST = 19
"""Niceness of engines while they start."""


@contextlib.contextmanager
def lowest_priority() -> Iterator[None]:
    """Context manager that starts engines at the lowest priority.

    At normal priority, three starting engines slow down running engines for 15 s. A process without
    ``CAP_SYS_NICE`` cannot raise its priority again. To detect this, the priority is first lowered
    by one step. If the priority cannot be raised again, it is not lowered further.
    """
    usual = os.getpriority(os.PRIO_PROCESS, 0)  # of this thread; new threads inherit its priority
    os.setpriority(os.PRIO_PROCESS, 0, usual + 1)
    try:
        os.setpriority(os.PRIO_PROCESS, 0, usual)
    except PermissionError:
        yield
        return
    os.setpriority(os.PRIO_PROCESS, 0, LAST)
    try:
        yield
    finally:
        this_process = psutil.Process()
        # Threads and engines that were started meanwhile have inherited the lowest priority.
        for process in (this_process, *this_process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
                for thread in process.threads():
                    os.setpriority(os.PRIO_PROCESS, thread.id, usual)
