"""Resample a live stream of 16-bit samples to 16 kHz."""

from typing import Any

import numpy as np
import numpy.typing as npt

from alignatt_agent.types import SAMPLE_RATE, FloatArray

Samples = npt.NDArray[np.int16]
"""``[samples]``."""


def to_float(samples: Samples) -> FloatArray:
    """Return samples in [-1, 1), scaled like those of Simulstream."""
    return samples.astype(np.float32) / np.float32(32768)


class Resampler:
    """Converts one stream of 16-bit mono samples at ``rate`` Hz, in pieces of any length."""

    def __init__(self, rate: int) -> None:
        import av

        self._frame = av.AudioFrame.from_ndarray
        self._rate = rate
        self._resampler: Any = None
        if rate != SAMPLE_RATE:
            self._resampler = av.AudioResampler(format="flt", layout="mono", rate=SAMPLE_RATE)

    def __call__(self, samples: Samples) -> FloatArray:
        """Return the next samples of the stream at 16 kHz; hold back the last samples."""
        audio = to_float(samples)
        if self._resampler is None or not audio.size:
            return audio
        frame = self._frame(audio[None], format="flt", layout="mono")
        frame.sample_rate = self._rate
        return self._resampled(frame)

    def finish(self) -> FloatArray:
        """Return the samples that were held back."""
        if self._resampler is None:
            return to_float(np.zeros(0, np.int16))
        return self._resampled(None)

    def _resampled(self, frame: Any) -> FloatArray:
        pieces = [piece.to_ndarray()[0] for piece in self._resampler.resample(frame)]
        # The resampler may return no frame, and NumPy cannot concatenate an empty list.
        return np.concatenate([np.zeros(0, np.float32), *pieces])
