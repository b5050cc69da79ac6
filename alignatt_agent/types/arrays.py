"""Array types, and the sampling rate of audio."""

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]

SAMPLE_RATE = 16_000
"""Sampling rate of all audio inside the cascade, in Hz."""
