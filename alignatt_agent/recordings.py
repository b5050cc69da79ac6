"""Recordings, streams and pipes as 16 kHz mono samples (PyAV, which carries FFmpeg).

Decoded and resampled frame by frame, so that hours of audio take constant memory, by one resampler
from beginning to end, so that there are no seams.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from alignatt_agent.types import SAMPLE_RATE, AlignAttError


class AudioError(AlignAttError, ValueError):
    """A recording cannot be decoded; the message says why."""


class Recording:
    """The first audio track of whatever FFmpeg opens.

    Args:
        source: path, address, or binary stream.
        name: how messages call it; default: the path.
        rate: of raw 16-bit little-endian mono samples, in Hz; ``None`` where a header tells.

    Attributes:
        seconds: its length, if that is known before it is decoded.
        found: codec, rate and channels, for the user.

    Raises:
        AudioError: there is no audio in it, or nothing that FFmpeg decodes.
    """

    def __init__(
        self, source: str | Path | IO[bytes], name: str | None = None, rate: int | None = None
    ) -> None:
        import av  # as slow to import as all of the evaluation, and most dev sets need none of it

        self._name = name or str(source)
        self._av = av
        self._errors = (av.FFmpegError, ValueError)
        given: dict[str, Any] = {}
        if rate is not None:
            options = {"sample_rate": str(rate), "ch_layout": "mono"}
            given = {"format": "s16le", "options": options}
        path = str(source) if isinstance(source, Path) else source
        try:
            self._container: Any = av.open(path, **given)
        except self._errors as error:
            raise AudioError(f"{self._name} cannot be decoded: {error}") from error
        if not self._container.streams.audio:
            self._container.close()
            raise AudioError(f"{self._name} holds no audio track")
        self._stream = self._container.streams.audio[0]
        codec, length = self._stream.codec_context, self._container.duration
        self.seconds: float | None = length / av.time_base if length else None
        self.found = f"{codec.name}, {codec.sample_rate} Hz, {codec.channels} channel(s)"

    def __enter__(self) -> Recording:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._container.close()

    def __iter__(self) -> Iterator[npt.NDArray[np.int16]]:
        """Yield pieces of any length, ``[samples]``.

        Raises:
            AudioError: it cannot be decoded any further.
        """
        resampler = self._av.AudioResampler(format="s16", layout="mono", rate=SAMPLE_RATE)
        try:
            for frame in chain(self._container.decode(self._stream), [None]):
                for piece in resampler.resample(frame):
                    yield piece.to_ndarray()[0]
        except self._errors as error:
            raise AudioError(f"{self._name} cannot be decoded: {error}") from error
