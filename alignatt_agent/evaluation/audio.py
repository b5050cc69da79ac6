"""Any recording as the whole 16 kHz mono 16-bit WAV file that Simulstream chunks correctly.

Decoded and resampled frame by frame (PyAV, which carries FFmpeg), so that hours of audio take
constant memory. Whole files: resampling chunk by chunk would put a seam into every chunk.
"""

from __future__ import annotations

import json
import wave
from pathlib import Path
from typing import Any

from alignatt_agent.types import SAMPLE_RATE


class AudioError(ValueError):
    """A recording cannot be decoded; the message says why."""


def converted(path: Path, folder: Path) -> tuple[Path, str]:
    """Convert ``path`` into ``folder``, or find it there from an earlier call.

    Returns:
        The WAV file, and one line that says what was changed.

    Raises:
        AudioError: there is no audio in it, or no decoder for it.
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
    av = _decoder(path)
    try:
        with av.open(str(path)) as container:
            if not container.streams.audio:
                raise AudioError(f"{path} holds no audio track")
            stream = container.streams.audio[0]
            codec = stream.codec_context
            found = f"{codec.name}, {codec.sample_rate} Hz, {codec.channels} channel(s)"
            resampler = av.AudioResampler(format="s16", layout="mono", rate=SAMPLE_RATE)
            with wave.open(str(wav), "wb") as output:
                output.setnchannels(1)
                output.setsampwidth(2)
                output.setframerate(SAMPLE_RATE)
                for frame in container.decode(stream):
                    _write(output, resampler.resample(frame))
                _write(output, resampler.resample(None))
                frames = output.getnframes()
    except (av.FFmpegError, ValueError) as error:
        if isinstance(error, AudioError):
            raise
        raise AudioError(f"{path} cannot be decoded: {error}") from error
    if frames == 0:
        raise AudioError(f"{path} holds no audio")
    return found


def _write(output: wave.Wave_write, frames: Any) -> None:
    for frame in frames:
        output.writeframes(frame.to_ndarray().tobytes())


def _decoder(path: Path) -> Any:
    try:
        import av
    except ImportError:
        raise AudioError(
            f"{path} is not a {SAMPLE_RATE} Hz mono 16-bit WAV file; install PyAV to have such "
            f"files converted (pip install av), or convert it: ffmpeg -i {path} -ar {SAMPLE_RATE} "
            f"-ac 1 -sample_fmt s16 NEW.wav"
        ) from None
    return av
