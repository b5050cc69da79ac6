"""What a client sends as audio, made 16 kHz without seams."""

from __future__ import annotations

import av
import numpy as np

from alignatt_agent.serve.access import RefusedError
from alignatt_agent.types import SAMPLE_RATE, FloatArray

LOWEST, HIGHEST = 8_000, 192_000
"""Sampling rates that clients may send, in Hz."""


class Resampler:
    """Turns the 16-bit little-endian mono audio of one stream into floats at 16 kHz.

    The resampler remembers what it has heard, so it does not matter how the audio is cut.

    Args:
        rate: sampling rate of the client, in Hz.

    Raises:
        RefusedError: no sampling rate that speech comes in.
    """

    def __init__(self, rate: float) -> None:
        if isinstance(rate, bool) or not isinstance(rate, int | float):
            raise RefusedError("sample-rate", f"sample_rate has to be a number of Hz, got {rate!r}")
        if not LOWEST <= rate <= HIGHEST or rate != int(rate):
            expected = f"{LOWEST} to {HIGHEST} Hz"
            raise RefusedError("sample-rate", f"sample_rate has to be {expected}, got {rate!r}")
        self._rate = int(rate)
        self._resampler = None
        if self._rate != SAMPLE_RATE:
            self._resampler = av.AudioResampler(format="flt", layout="mono", rate=SAMPLE_RATE)

    def __call__(self, data: bytes) -> FloatArray:
        """Return what can be heard of the stream with ``data``, ``[samples]``.

        Raises:
            RefusedError: half a sample came.
        """
        if len(data) % 2:
            raise RefusedError(
                "odd-bytes", f"audio has to be whole 16-bit samples, got {len(data)} bytes"
            )
        samples: FloatArray = np.frombuffer(data, dtype="<i2").astype(np.float32)
        samples /= 32768
        if self._resampler is None or not samples.size:
            return samples
        frame = av.AudioFrame.from_ndarray(samples[None], format="flt", layout="mono")
        frame.sample_rate = self._rate
        return self._resampled(frame)

    def finish(self) -> FloatArray:
        """Return the last samples, which the resampler held back."""
        empty = np.zeros(0, dtype=np.float32)
        return empty if self._resampler is None else self._resampled(None)

    def _resampled(self, frame: av.AudioFrame | None) -> FloatArray:
        assert self._resampler is not None
        empty = np.zeros(0, dtype=np.float32)
        pieces = [piece.to_ndarray()[0] for piece in self._resampler.resample(frame)]
        found: FloatArray = np.concatenate([empty, *pieces]).astype(np.float32)
        return found
