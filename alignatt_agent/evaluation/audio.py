"""Convert recordings to 16 kHz mono 16-bit WAV, which Simulstream chunks correctly.

Whole files are converted, because resampling chunk by chunk distorts chunk borders.
"""

import json
from pathlib import Path

import numpy as np
import soundfile

from alignatt_agent.types import SAMPLE_RATE
from alignatt_agent.types.audio import AudioError, Recording


def converted(path: Path, folder: Path) -> tuple[Path, str]:
    """Convert ``path`` into ``folder``, unless this was done before; return the WAV and a note."""
    folder.mkdir(parents=True, exist_ok=True)
    wav, record = folder / f"{path.stem}.wav", folder / f"{path.stem}.json"
    stat = path.stat()
    origin = {"path": str(path.resolve()), "bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns}
    if wav.is_file() and record.is_file():
        known = json.loads(record.read_text(encoding="utf-8"))
        if known["origin"] == origin:
            return wav, str(known["note"])
    record.unlink(missing_ok=True)
    partial = wav.with_suffix(".part")
    try:
        found = _decode(path, partial)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    partial.replace(wav)
    note = f"{path.name}: {found}; converted to {SAMPLE_RATE} Hz, mono, 16 bit in {wav}"
    record.write_text(json.dumps({"origin": origin, "note": note}) + "\n", encoding="utf-8")
    return wav, note


def _decode(path: Path, wav: Path) -> str:
    """Write ``path`` as WAV and return its former format."""
    with (
        Recording(path) as recording,
        soundfile.SoundFile(wav, "w", SAMPLE_RATE, 1, "PCM_16", format="WAV") as output,
    ):
        level = 32768.0
        if recording.found.startswith("pcm_f"):  # float samples may exceed full scale
            with Recording(path) as again:
                level /= max([1.0, *(float(np.abs(piece).max(initial=0.0)) for piece in again)])
        for piece in recording:
            output.write(np.clip(np.rint(level * piece), -32768, 32767).astype(np.int16))
        frames = output.frames
    if frames == 0:
        raise AudioError(f"{path} has no audio")
    return recording.found
