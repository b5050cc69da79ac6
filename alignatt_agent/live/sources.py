"""Read audio sources and divide the audio into chunks."""

import contextlib
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from math import inf
from pathlib import Path
from typing import IO, Self

import numpy as np
from tqdm import tqdm

from alignatt_agent.audio.recording import AudioError, Recording
from alignatt_agent.types import SAMPLE_RATE, FloatArray

MICROPHONE = "mic"
"""Input that stands for the microphone."""

STDIN = "-"
"""Input that stands for standard input."""

AHEAD = 1 << 14
"""Number of pieces to read ahead: minutes of audio, so that none is lost while the models load."""

NOTE_S = 10.0
"""Seconds without data after which a note is printed."""

STALL_S = 60.0
"""Seconds without data after which reading from the network fails."""

RECORDERS = (
    ("pw-record", "--format=s16", f"--rate={SAMPLE_RATE}", "--channels=1", "-"),
    ("parec", "--format=s16le", f"--rate={SAMPLE_RATE}", "--channels=1", "--latency-msec=50"),
    ("arecord", "-q", "-t", "raw", "-f", "S16_LE", "-r", str(SAMPLE_RATE), "-c", "1"),
)
"""Programs that write raw audio from the microphone to standard output."""


def name_of(source: str) -> str:
    """Return the stem of a source's output files."""
    if source == STDIN:
        return "stdin"
    path = source
    if _is_address(source):
        path, _, _ = source.partition("?")
    # A shell's <(command) is a path such as /dev/fd/63 (bash) or /proc/self/fd/11 (zsh).
    if path.startswith(("/dev/", "/proc/")):
        return "stream"
    return Path(path).stem or "stream"


def _is_address(source: str) -> bool:
    return "://" in source


class Source:
    """A path, an address, ``"mic"``, or ``"-"``, read in a thread so that Ctrl-C interrupts a wait.

    A path may be a file or a pipe. Paths and web addresses are opened on creation, so that no
    engine starts if they are wrong. Other sources are opened later. ``rate`` is the sampling rate
    of raw samples, in Hz.
    """

    def __init__(self, source: str, rate: int | None = None) -> None:
        self._source = source
        self._rate = rate
        self._queue: queue.Queue[Recording | FloatArray | Exception | None] = queue.Queue(AHEAD)
        self._cleanup = contextlib.ExitStack()
        self._name = ""
        self.seconds: float | None = None
        is_web_address = source.startswith("http")
        # A pipe or a live stream may wait for its program for any time before it begins.
        self._limit_s = inf
        if is_web_address:
            self._limit_s = STALL_S
        if source == MICROPHONE:
            _recorder()
        elif source == STDIN:
            if sys.stdin.isatty():
                raise AudioError("standard input is a terminal: pipe a recording into it")
        elif not _is_address(source):
            path = Path(source)
            if path.is_dir() or not path.exists():
                raise AudioError(f"{source} is not a file; expected a file, an address, mic or -")
            self._open()
        elif is_web_address:
            self._open()

    def __enter__(self) -> Self:
        if not self._name:
            self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def __iter__(self) -> Iterator[FloatArray]:
        """Yield pieces of any length."""
        while isinstance(piece := self._next(), np.ndarray):
            yield piece

    def waits(self) -> bool:
        """Return whether more audio is available."""
        return not self._queue.empty()

    def _open(self) -> None:
        """Open the source and start reading it."""
        audio: str | IO[bytes] = self._source
        rate = self._rate
        self._name = self._source
        if self._source == MICROPHONE:
            audio = self._cleanup.enter_context(_microphone())
            rate = SAMPLE_RATE
            self._name = "the microphone"
        elif self._source == STDIN:
            # A buffered reader would wait for 32 KiB (one second of audio).
            audio = getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)
            self._name = "standard input"
        arguments = (audio, self._name, rate)
        threading.Thread(target=self._read, args=arguments, daemon=True).start()
        recording = self._next()
        assert isinstance(recording, Recording)
        self.seconds = recording.seconds
        # A network stream that has begun must not stall.
        if _is_address(self._source):
            self._limit_s = STALL_S

    def _read(self, audio: str | IO[bytes], name: str, rate: int | None) -> None:
        """Read the source in a separate thread."""
        try:
            with Recording(audio, name, rate) as recording:
                self._queue.put(recording)
                for piece in recording:
                    self._queue.put(piece)
            self._queue.put(None)
        except Exception as error:
            # ``_next`` raises it in the main thread, after the audio before it.
            self._queue.put(error)

    def _next(self) -> Recording | FloatArray | None:
        """Wait for the next item and return it; ``None`` at the end of the audio."""
        waited_s = 0.0
        while True:
            try:
                queued = self._queue.get(timeout=NOTE_S)
            except queue.Empty:
                waited_s += NOTE_S
                if waited_s >= self._limit_s:
                    raise AudioError(f"{self._name} sent nothing for {waited_s:g} s") from None
                if waited_s == NOTE_S:
                    print(f"note: waiting for {self._name}", file=sys.stderr, flush=True)
            else:
                if isinstance(queued, Exception):
                    raise queued
                return queued


def chunks(
    pieces: Iterable[FloatArray], size: int, waits: Callable[[], bool] | None = None
) -> Iterator[FloatArray]:
    """Yield chunks of exactly ``size`` samples; the last one may be shorter.

    If provided, ``waits`` returns whether more audio is available. In this case, a chunk contains
    all available audio (at least ``size`` samples), so that a slow machine gets longer chunks.
    """
    pending = np.zeros(0, np.float32)
    failure: AudioError | None = None
    try:
        for piece in pieces:
            pending = np.concatenate([pending, piece])
            while pending.size >= size:
                end = size
                if waits is not None:
                    if waits():
                        break
                    end = pending.size
                yield pending[:end]
                pending = pending[end:]
    except AudioError as error:
        # The audio before the error is yielded first.
        failure = error
    if pending.size:
        yield pending
    if failure is not None:
        raise failure


@contextlib.contextmanager
def _microphone() -> Iterator[IO[bytes]]:
    """Record from the microphone until Enter is pressed."""
    command = _recorder()
    # The recorder runs in its own session, so that Ctrl-C reaches only this process.
    # Without a buffer, each piece of audio is read as soon as it is recorded.
    recorder = subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0, start_new_session=True)
    assert recorder.stdout is not None

    def stop_at_enter() -> None:
        sys.stdin.readline()
        recorder.terminate()

    has_terminal = sys.stdin.isatty()
    stop = "press Enter to stop" if has_terminal else "terminate the recorder to stop"
    print(f"listening to the microphone with {command[0]}; {stop}", file=sys.stderr)
    try:
        if has_terminal:
            threading.Thread(target=stop_at_enter, daemon=True).start()
        yield recorder.stdout
    finally:
        recorder.terminate()
        recorder.wait()


def _recorder() -> tuple[str, ...]:
    for command in RECORDERS:
        if shutil.which(command[0]):
            return command
    names = ", ".join(command[0] for command in RECORDERS)
    raise AudioError(
        f"found no program that records audio: install one of {names} (packages pipewire-bin, "
        "pulseaudio-utils, alsa-utils), or pipe audio into `alignatt translate -`"
    )


def with_progress(
    chunks: Iterable[FloatArray], seconds: float | None, shown: bool
) -> Iterable[FloatArray]:
    """Show the progress in seconds of audio and the remaining time."""
    # A log keeps every update of the bar.
    interval_s = 0.5 if sys.stderr.isatty() else 10
    bar = tqdm(
        total=seconds,
        unit=" s of audio",
        unit_scale=True,
        disable=not shown,
        mininterval=interval_s,
    )
    with bar:
        for chunk in chunks:
            yield chunk
            bar.update(chunk.size / SAMPLE_RATE)
