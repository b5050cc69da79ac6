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
from typing import IO, Any, Self

import numpy as np
from tqdm import tqdm

from alignatt_agent.audio.recording import AudioError, Recording
from alignatt_agent.types import SAMPLE_RATE, FloatArray

MICROPHONE, STDIN = "mic", "-"

AHEAD = 1 << 14
"""Number of pieces to read ahead: minutes of audio, so that none is lost while the models load."""
NOTE_S, STALL_S = 10.0, 60.0
"""Seconds without data after which a note is printed and after which reading fails."""

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
    path = source.partition("?")[0] if "://" in source else source
    if path.startswith("/dev/"):  # e.g. /dev/fd/63, a shell's <(command)
        return "stream"
    return Path(path).stem or "stream"


class Source:
    """A path, an address, ``"mic"``, or ``"-"``, read in a thread so that Ctrl-C interrupts a wait.

    A path may be a file or a pipe. Paths and web addresses are opened on creation, so that no
    engine starts if they are wrong. Other sources are opened later. ``rate`` is the sampling rate
    of raw samples, in Hz.
    """

    def __init__(self, source: str, rate: int | None = None) -> None:
        self._source, self._rate = source, rate
        self._box: queue.Queue[Recording | FloatArray | Exception | None] = queue.Queue(AHEAD)
        self._end = contextlib.ExitStack()
        self._limit_s = STALL_S if source.startswith("http") else inf
        self._name = ""
        self.seconds: float | None = None
        if source == MICROPHONE:
            _recorder()
        elif source == STDIN:
            if sys.stdin.isatty():
                raise AudioError("standard input is a terminal: pipe a recording into it")
        elif "://" not in source and (Path(source).is_dir() or not Path(source).exists()):
            raise AudioError(f"{source} is not a file; expected a file, an address, mic or -")
        elif "://" not in source or source.startswith("http"):
            self._open()

    def __enter__(self) -> Self:
        if not self._name:
            self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.close()

    def __iter__(self) -> Iterator[FloatArray]:
        """Yield pieces of any length."""
        while isinstance(piece := self._next(), np.ndarray):
            yield piece

    def waits(self) -> bool:
        """Return whether more audio is available."""
        return not self._box.empty()

    def _open(self) -> None:
        """Open the source and start reading it."""
        given: tuple[Any, ...] = self._source, self._source, self._rate
        if self._source == MICROPHONE:
            given = self._end.enter_context(_microphone()), "the microphone", SAMPLE_RATE
        elif self._source == STDIN:
            # A buffered reader would wait for 32 KiB (one second of audio).
            stream = getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)
            given = stream, "standard input", self._rate
        self._name = given[1]
        threading.Thread(target=self._read, args=given, daemon=True).start()
        recording = self._next()
        assert isinstance(recording, Recording)
        self.seconds = recording.seconds
        if "://" in self._source:
            self._limit_s = STALL_S

    def _read(self, *given: Any) -> None:
        """Read the source in a separate thread."""
        try:
            with Recording(*given) as recording:
                self._box.put(recording)
                for piece in recording:
                    self._box.put(piece)
            self._box.put(None)
        except Exception as error:
            self._box.put(error)

    def _next(self) -> Recording | FloatArray | None:
        """Wait for the next item and return it."""
        waited_s = 0.0
        while True:
            try:
                found = self._box.get(timeout=NOTE_S)
            except queue.Empty:
                waited_s += NOTE_S
                if waited_s >= self._limit_s:
                    raise AudioError(f"{self._name} sent nothing for {waited_s:g} s") from None
                if waited_s == NOTE_S:
                    print(f"note: waiting for {self._name}", file=sys.stderr, flush=True)
            else:
                if isinstance(found, Exception):
                    raise found
                return found


def chunks(
    pieces: Iterable[FloatArray], size: int, waits: Callable[[], bool] | None = None
) -> Iterator[FloatArray]:
    """Yield chunks of exactly ``size`` samples; the last one may be shorter.

    If provided, ``waits`` returns whether more audio is available. In this case, a chunk contains
    all available audio (at least ``size`` samples), so that a slow machine gets longer chunks.
    """
    kept = np.zeros(0, np.float32)
    broken: AudioError | None = None
    try:
        for piece in pieces:
            kept = np.concatenate([kept, piece])
            while kept.size >= size and not (waits and waits()):
                end = kept.size if waits else size
                yield kept[:end]
                kept = kept[end:]
    except AudioError as error:
        broken = error  # raised after the preceding audio is yielded
    if kept.size:
        yield kept
    if broken is not None:
        raise broken


@contextlib.contextmanager
def _microphone() -> Iterator[IO[bytes]]:
    """Record from the microphone until Enter is pressed."""
    command = _recorder()
    # The recorder runs in its own session, so that Ctrl-C reaches only this process.
    recorder = subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0, start_new_session=True)
    assert recorder.stdout is not None
    stop = "press Enter to stop" if sys.stdin.isatty() else "terminate the recorder to stop"
    print(f"listening to the microphone with {command[0]}; {stop}", file=sys.stderr)
    try:
        if sys.stdin.isatty():

            def at_enter() -> None:
                sys.stdin.readline()
                recorder.terminate()

            threading.Thread(target=at_enter, daemon=True).start()
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
    often = 0.5 if sys.stderr.isatty() else 10
    with tqdm(
        total=seconds, unit=" s of audio", unit_scale=True, disable=not shown, mininterval=often
    ) as bar:
        for chunk in chunks:
            yield chunk
            bar.update(chunk.size / SAMPLE_RATE)
