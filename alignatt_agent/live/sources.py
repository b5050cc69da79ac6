"""Sources of audio, and the chunks that are made of them."""

import contextlib
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from shlex import quote

import numpy as np
from tqdm import tqdm

from alignatt_agent.types import SAMPLE_RATE, FloatArray
from alignatt_agent.types.audio import AudioError, Recording, Samples, to_float

Pieces = Iterable[Samples]

MICROPHONE, STDIN = "mic", "-"

RECORDERS = (
    ("pw-record", "--format=s16", f"--rate={SAMPLE_RATE}", "--channels=1", "-"),
    ("parec", "--format=s16le", f"--rate={SAMPLE_RATE}", "--channels=1", "--latency-msec=50"),
    ("arecord", "-q", "-t", "raw", "-f", "S16_LE", "-r", str(SAMPLE_RATE), "-c", "1"),
)
"""Programs that write raw audio of the microphone to their standard output."""


def name_of(source: str) -> str:
    """Return the stem of files that are written for a source."""
    if source == STDIN:
        return "stdin"
    return Path(source.partition("?")[0]).stem or "stream"


def check(source: str, rate: int | None = None) -> float | None:
    """Check a source before engines start; returns its seconds, if they are known."""
    if source == MICROPHONE:
        _recorder()
        return None
    if source == STDIN:
        if sys.stdin.isatty():
            raise AudioError("standard input is a terminal: pipe a recording into it")
        return None
    if "://" in source and not source.startswith("http"):
        return None  # may wait for its sender
    if "://" not in source and not Path(source).is_file():
        raise AudioError(f"{source} is not a file; expected a file, an address, mic or -")
    with Recording(source, rate=rate) as recording:
        if recording.tracks > 1:
            pipe = f"ffmpeg -i {quote(source)} -map 0:a:1 -f wav - | alignatt translate - ..."
            note = (
                f"note: the first of {recording.tracks} audio tracks is taken; the second: {pipe}"
            )
            print(note, file=sys.stderr)
        return recording.seconds


def opened(source: str, rate: int | None = None) -> AbstractContextManager[Pieces]:
    """Open a path, an address, ``"mic"`` or ``"-"``; ``rate`` is that of raw samples, in Hz."""
    if source == MICROPHONE:
        return _microphone()
    if source != STDIN:
        return Recording(source, rate=rate)
    # A buffered reader would wait for 32 KiB, a second of audio.
    stream = getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)
    return Recording(stream, "standard input", rate)


def on_grid(pieces: Pieces, size: int) -> Iterator[FloatArray]:
    """Yield chunks of exactly ``size`` samples; the last may be shorter, before an error too."""
    kept = np.zeros(0, np.int16)
    broken: AudioError | None = None
    try:
        for piece in pieces:
            kept = np.concatenate([kept, piece])
            while kept.size >= size:
                yield to_float(kept[:size])
                kept = kept[size:]
    except AudioError as error:
        broken = error  # after the audio before it
    if kept.size:
        yield to_float(kept)
    if broken is not None:
        raise broken


def paced(chunks: Iterable[FloatArray]) -> Iterator[FloatArray]:
    """Yield each chunk when its last sample would have come from a microphone."""
    begin, samples = time.monotonic(), 0
    for chunk in chunks:
        samples += chunk.size
        time.sleep(max(0.0, begin + samples / SAMPLE_RATE - time.monotonic()))
        yield chunk


def as_it_comes(pieces: Pieces, size: int) -> Iterator[FloatArray]:
    """Yield all audio that waits, at least ``size`` samples: a slow machine gets longer chunks."""
    box: queue.SimpleQueue[Samples | Exception | None] = queue.SimpleQueue()

    def listen() -> None:
        try:
            for piece in pieces:
                box.put(piece)
            box.put(None)
        except Exception as error:
            box.put(error)

    threading.Thread(target=listen, daemon=True).start()
    kept: list[Samples] = []
    while True:
        found = box.get()
        if goes_on := isinstance(found, np.ndarray):
            kept.append(found)
        waiting = sum(piece.size for piece in kept)
        if waiting and (not goes_on or (waiting >= size and box.empty())):
            yield to_float(np.concatenate(kept))
            kept = []
        if isinstance(found, Exception):
            raise found
        if not goes_on:
            return


@contextlib.contextmanager
def _microphone() -> Iterator[Pieces]:
    """Record the microphone until Enter is pressed."""
    command = _recorder()
    # In a session of its own: the interrupt of a terminal is ours to handle.
    recorder = subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0, start_new_session=True)
    assert recorder.stdout is not None
    stop = "press Enter to stop" if sys.stdin.isatty() else "end it with the recorder"
    print(f"listening to the microphone with {command[0]}; {stop}", file=sys.stderr)
    try:
        if sys.stdin.isatty():

            def at_enter() -> None:
                sys.stdin.readline()
                recorder.terminate()

            threading.Thread(target=at_enter, daemon=True).start()
        with Recording(recorder.stdout, "the microphone", SAMPLE_RATE) as recording:
            yield recording
    finally:
        recorder.terminate()
        recorder.wait()


def _recorder() -> tuple[str, ...]:
    for command in RECORDERS:
        if shutil.which(command[0]):
            return command
    names = ", ".join(command[0] for command in RECORDERS)
    raise AudioError(
        f"no program records the microphone: install one of {names} (packages pipewire-bin, "
        "pulseaudio-utils, alsa-utils), or pipe audio into `alignatt translate -`"
    )


def with_progress(
    chunks: Iterable[FloatArray], seconds: float | None, shown: bool
) -> Iterable[FloatArray]:
    """Show the progress and the time left."""
    form = (
        "{percentage:3.0f}%|{bar:30}| {n:.1f}/{total:.1f} s of audio [{elapsed}, {remaining} left]"
    )
    if seconds is None:
        form = "{n:.1f} s of audio [{elapsed}]"
    often = 0.5 if sys.stderr.isatty() else 10
    with tqdm(
        total=seconds, bar_format=form, disable=not shown, smoothing=0.05, mininterval=often
    ) as bar:
        for chunk in chunks:
            yield chunk
            heard = chunk.size / SAMPLE_RATE
            bar.update(heard if seconds is None else min(heard, seconds - bar.n))
