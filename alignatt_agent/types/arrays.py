"""Arrays, and the sampling rate of those with audio."""

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]

SAMPLE_RATE = 16_000
"""Sampling rate of every waveform inside the cascade, in Hz."""
