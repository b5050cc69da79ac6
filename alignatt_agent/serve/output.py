"""Write the log and all other output of a server without ever blocking the server.

If nobody reads the server's standard error, its pipe is full after 64 KiB, and the next write to it
blocks the event loop for good. Therefore the log goes through a bounded queue to a thread. Whatever
else is written to standard output or standard error (by ``print``, by libraries, or by engine
processes, which inherit both) goes through a pipe that a second thread always reads. Only the
thread that writes to the real descriptor can block. Lines that do not fit in the queue are dropped
and counted.
"""

import contextlib
import faulthandler
import logging
import os
import queue
import select
import sys
import threading
from collections.abc import Iterator
from logging.handlers import QueueHandler, QueueListener

MAX_LINES = 2_000
"""Maximum number of waiting lines per descriptor."""

MAX_LINE = 8_192
"""Maximum number of characters of a line; longer lines are split."""

FLUSH_S = 1.0
"""Seconds for waiting lines to be written when the server stops."""

STDOUT, STDERR = 1, 2

END = "\0end of output\n"
"""Line that marks the end of this process's own output in the pipe."""


class BoundedQueueHandler(QueueHandler):
    """A handler that drops and counts records if its queue is full."""

    def __init__(self) -> None:
        self.lines: queue.Queue[logging.LogRecord | None] = queue.Queue(MAX_LINES)
        super().__init__(self.lines)
        self.dropped = 0

    def enqueue(self, record: logging.LogRecord) -> None:
        """Queue a record without waiting. The caller holds the handler's lock."""
        try:
            self.lines.put_nowait(record)
        except queue.Full:
            self.dropped += 1

    def take_dropped(self) -> int:
        """Return and reset the number of dropped lines."""
        self.acquire()
        try:
            dropped, self.dropped = self.dropped, 0
        finally:
            self.release()
        return dropped


class DescriptorListener(QueueListener):
    """A listener whose thread writes lines to a file descriptor, which may block.

    It does not use ``sys.stderr``: Python waits for the lock of a blocked stream when it exits.
    """

    def __init__(self, source: BoundedQueueHandler, descriptor: int) -> None:
        super().__init__(source.lines)
        self._source = source
        self._descriptor = descriptor

    def handle(self, record: logging.LogRecord) -> None:
        """Write a line and, before it, the number of lines that were dropped."""
        text = record.getMessage()
        if not text.endswith(("\n", "\r")):
            text += "\n"
        dropped = self._source.take_dropped()
        if dropped:
            text = f"{dropped} lines were dropped because nobody read this output\n{text}"
        data = memoryview(text.encode(errors="backslashreplace"))
        with contextlib.suppress(OSError):  # the reader has exited
            while data:
                try:
                    written = os.write(self._descriptor, data)
                    data = data[written:]
                # Another process has made the shared descriptor non-blocking.
                except BlockingIOError:
                    select.select([], [self._descriptor], [])

    def enqueue_sentinel(self) -> None:
        """Queue the end, even if the queue is full."""
        # The base class calls ``put_nowait``.
        self._source.lines.put(None)


class Outlet:
    """Replaces a standard descriptor with a pipe whose content is written by a thread."""

    def __init__(self, descriptor: int) -> None:
        self.handler = BoundedQueueHandler()
        self.real = os.dup(descriptor)
        self._descriptor = descriptor
        self._drained = threading.Event()
        readable, writable = os.pipe()
        os.dup2(writable, descriptor)  # child processes inherit it
        os.close(writable)
        threading.Thread(target=self._read, args=(readable,), daemon=True).start()
        self._listener = DescriptorListener(self.handler, self.real)
        self._listener.start()

    def close(self) -> None:
        """Restore the descriptor; write the waiting lines, but do not wait for a reader."""
        os.write(self._descriptor, END.encode())
        os.dup2(self.real, self._descriptor)
        self._drained.wait(FLUSH_S)
        # ``QueueListener.stop`` waits for its thread without a limit.
        stopping = threading.Thread(target=self._listener.stop, daemon=True)
        stopping.start()
        stopping.join(FLUSH_S)
        if not stopping.is_alive():
            os.close(self.real)

    def _read(self, readable: int) -> None:
        """Queue lines until all child processes have exited, too."""
        with os.fdopen(readable, encoding="utf-8", errors="replace", newline="") as lines:
            while line := lines.readline(MAX_LINE):
                line, end, _ = line.partition(END)
                if line:
                    self.handler.handle(logging.makeLogRecord({"msg": line}))
                if end:
                    self._drained.set()


@contextlib.contextmanager
def unblocked() -> Iterator[None]:
    """Keep the log and the output of this process and its children from blocking them."""
    sys.stdout.flush()
    sys.stderr.flush()
    outlets = [Outlet(STDOUT), Outlet(STDERR)]
    stderr = outlets[-1]
    if os.environ.get("PYTHONFAULTHANDLER"):
        # The threads of a crashed process no longer write.
        faulthandler.enable(file=stderr.real)
    root = logging.getLogger()
    root.addHandler(stderr.handler)
    try:
        yield
    finally:
        root.removeHandler(stderr.handler)
        if os.environ.get("PYTHONFAULTHANDLER"):
            faulthandler.enable(file=STDERR)
        sys.stdout.flush()
        sys.stderr.flush()
        for outlet in outlets:
            outlet.close()
