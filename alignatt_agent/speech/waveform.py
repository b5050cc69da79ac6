"""Incoming samples: checked, made safe, and measured for loudness."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import numpy.typing as npt

from alignatt_agent.types import SAMPLE_RATE, FloatArray

LOGGER = logging.getLogger(__name__)

FRAME = SAMPLE_RATE // 50
"""Samples per loudness frame (20 ms)."""


class Intake:
    """Turns what a client sends into safe samples; warns once per stream and kind of damage."""

    def __init__(self) -> None:
        self._warned: set[str] = set()

    def __call__(self, chunk: npt.NDArray[Any]) -> FloatArray:
        """Return ``chunk`` as float32 in [-1, 1]: NaN becomes 0, the rest is clipped.

        Raises:
            ValueError: the chunk is not a mono waveform of floating-point samples.
        """
        samples = np.asarray(chunk)
        if samples.ndim != 1 or not np.issubdtype(samples.dtype, np.floating):
            raise ValueError(
                "expected mono audio as floating-point samples of shape [samples] in [-1, 1] at "
                f"{SAMPLE_RATE} Hz, got shape {list(samples.shape)} of {samples.dtype}"
            )
        missing = np.isnan(samples)
        if missing.any():
            self._warn("NaN", "audio holds NaN samples; they are silenced")
            samples = np.where(missing, 0.0, samples)
        if samples.size and np.abs(samples).max() > 1.0:
            self._warn("range", "audio holds samples outside [-1, 1]; they are clipped")
            samples = np.clip(samples, -1.0, 1.0)
        return np.array(samples, dtype=np.float32)

    def _warn(self, kind: str, message: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            LOGGER.warning("%s (said once per stream)", message)


def loudness(audio: FloatArray) -> float:
    """Return the root mean square of the loudest 20 ms frame of ``audio`` (``[samples]``)."""
    if not audio.size:
        return 0.0
    padded = np.pad(audio, (0, -audio.size % FRAME))
    frames = padded.reshape(-1, FRAME)
    return float(np.sqrt(np.square(frames, dtype=np.float64).mean(axis=1).max()))
