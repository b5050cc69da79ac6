"""Any recording as the whole 16 kHz mono 16-bit WAV file that Simulstream chunks correctly.

Decoded and resampled frame by frame (PyAV, which carries FFmpeg), so that hours of audio take
constant memory. Whole files: resampling chunk by chunk would put a seam into every chunk.
"""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path

import soundfile

from alignatt_agent.types import SAMPLE_RATE, AlignAttError


class AudioError(AlignAttError, ValueError):
    """A recording cannot be decoded; the message says why."""


def converted(path: Path, folder: Path) -> tuple[Path, str]:
    """Convert ``path`` into ``folder``, or find it there from an earlier call.

    Returns:
        The WAV file, and one line that says what was changed.

    Raises:
        AudioError: there is no audio in it, or nothing that FFmpeg decodes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    wav, memo = folder / f"{path.stem}.wav", folder / f"{path.stem}.json"
    stat = path.stat()
    origin = {"path": str(path.resolve()), "bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns}
    if wav.is_file() and memo.is_file():
        known = json.loads(memo.read_text(encoding="utf-8"))
        if known["origin"] == origin:
            return wav, str(known["note"])
    memo.unlink(missing_ok=True)
    partial = wav.with_suffix(".part")
    try:
        found = _decode(path, partial)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    partial.replace(wav)
    note = f"{path.name}: {found}; converted to {SAMPLE_RATE} Hz, mono, 16 bit in {wav}"
    memo.write_text(json.dumps({"origin": origin, "note": note}) + "\n", encoding="utf-8")
    return wav, note


def _decode(path: Path, wav: Path) -> str:
    """Write ``path`` as WAV and return what it was."""
    import av  # as slow to import as all of the evaluation, and most dev sets need none of it

    try:
        with av.open(str(path)) as container:
            if not container.streams.audio:
                raise AudioError(f"{path} holds no audio track")
            stream = container.streams.audio[0]
            codec = stream.codec_context
            found = f"{codec.name}, {codec.sample_rate} Hz, {codec.channels} channel(s)"
            resampler = av.AudioResampler(format="s16", layout="mono", rate=SAMPLE_RATE)
            with soundfile.SoundFile(wav, "w", SAMPLE_RATE, 1, "PCM_16", format="WAV") as output:
                for frame in chain(container.decode(stream), [None]):
                    for piece in resampler.resample(frame):
                        output.write(piece.to_ndarray()[0])
                frames = output.frames
    except (av.FFmpegError, ValueError) as error:
        if isinstance(error, AudioError):
            raise
        raise AudioError(f"{path} cannot be decoded: {error}") from error
    if frames == 0:
        raise AudioError(f"{path} holds no audio")
    return found
