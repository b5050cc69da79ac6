"""Engines that start beside others leave them the processor."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import psutil

LAST = 19
"""Niceness of engines that start."""


@contextlib.contextmanager
def giving_way() -> Iterator[None]:
    """Let what is started in here give way to all other processes until it is there.

    Three engines that start take the processor from those beside them for a quarter of a minute. A
    process that may not take back what it gave up (no ``CAP_SYS_NICE``) finds out by giving up one
    step, and gives up no more.
    """
    usual = os.getpriority(os.PRIO_PROCESS, 0)  # 0 is this thread, which others inherit from
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
        mine = psutil.Process()
        for process in (mine, *mine.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
                for thread in process.threads():
                    os.setpriority(os.PRIO_PROCESS, thread.id, usual)
