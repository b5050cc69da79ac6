"""Convert recordings to 16 kHz mono 16-bit WAV, which Simulstream chunks correctly.

Whole files are converted because resampling chunk by chunk distorts the chunk borders.
"""

from pathlib import Path

import numpy as np
import soundfile

from alignatt_agent.audio.recording import AudioError, Recording
from alignatt_agent.config.digests import short_digest
from alignatt_agent.speech.waveform import CLICKS
from alignatt_agent.types import SAMPLE_RATE


def converted(path: Path, folder: Path) -> tuple[Path, str]:
    """Convert ``path`` to a WAV file in ``folder``; return its path and a note.

    Converting one hour of MP3 takes only 20 s on one core, so earlier results are not reused.
    """
    if path.resolve().parent == folder.resolve():
        raise AudioError(
            f"{path} must be converted, but the copy would be stored in the same folder: choose "
            f"another --output"
        )
    folder.mkdir(parents=True, exist_ok=True)
    wav = folder / f"{path.stem}.wav"
    # A longer suffix could exceed the longest name that the file system allows.
    partial = folder / f"{short_digest([wav.name.encode(errors='surrogateescape')])}.part"
    with (
        Recording(path) as recording,
        np.errstate(over="ignore"),  # infinite samples are clipped
        soundfile.SoundFile(partial, "w", SAMPLE_RATE, 1, "PCM_16", format="WAV") as output,
    ):
        level = 32768.0
        if recording.found.startswith("pcm_f"):  # float samples may exceed full scale
            level /= full_scale(path)
        for piece in recording:
            output.write(np.clip(np.rint(level * piece), -32768, 32767).astype(np.int16))
        frames = output.frames
    if frames == 0:
        raise AudioError(f"{path} contains no audio")
    partial.replace(wav)
    form = f"{SAMPLE_RATE} Hz, mono, 16 bit"
    return wav, f"{path.name}: {recording.found}; converted to {form} in {wav}"


def full_scale(path: Path) -> float:
    """Return the level that becomes full scale, at least 1; louder samples are clipped as clicks.

    This is the rule of ``speech.waveform.in_range``, for a whole recording in constant memory.
    """
    # The order of positive floats is the order of their bits. 19 of the 31 bits suffice: the
    # level is rounded up by less than 0.05 %.
    counts = np.zeros(1 << 19, np.int64)
    with Recording(path) as recording:
        for piece in recording:
            sizes = np.abs(np.ascontiguousarray(piece, np.float32)).view(np.uint32) >> 12
            counts += np.bincount(sizes, minlength=counts.size)
    total = int(counts.sum())
    if total == 0:
        return 1.0
    place = int(np.searchsorted(np.cumsum(counts), (1 - CLICKS) * total))
    level = np.array([(place + 1) << 12], np.uint32).view(np.float32)
    return max(1.0, float(level[0]))
