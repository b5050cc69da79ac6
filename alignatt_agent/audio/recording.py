"""Decode recordings, network streams and pipes to 16 kHz mono samples (with PyAV, i.e. FFmpeg).

One resampler is used until the format changes, so there are no discontinuities. Frames are decoded
one by one, so hours of audio take constant memory. Each sample keeps the time at which a player
would play it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cache
from itertools import chain
from math import inf
from pathlib import Path
from typing import IO, Any

import numpy as np

from alignatt_agent.audio.wav_header import undeclared, undeclared_seconds
from alignatt_agent.types import SAMPLE_RATE, AlignAttError, FloatArray

LOGGER = logging.getLogger(__name__)

ADDRESS = {"rw_timeout": "20000000", "reconnect": "1", "reconnect_delay_max": "8"}
"""FFmpeg's HTTP options: reconnect, and resume at the same position if the server supports it."""
GAP_S, JUMP_S, START_S = 0.1, 10.0, 3600.0
"""Gaps below ``GAP_S`` come from rounding and encoder delays. In a stream, a gap over ``JUMP_S``
or a start after ``START_S`` means another clock, as with FFmpeg's ``dts_delta_threshold``."""
NOTED_S = 60.0
"""Gap in a recording above which a warning is printed, in seconds."""
OPPOSITE, FORGET = 16, 1 - 4 / SAMPLE_RATE
"""Two channels are in opposite phase if the power of their difference exceeds ``OPPOSITE`` times
that of their sum. Each sample multiplies powers by ``FORGET``, so they decay within 0.25 s."""
HINT = "; raw samples need --raw RATE, and an MP4 with its index at the end needs a file name"


class AudioError(AlignAttError, ValueError):
    """Audio cannot be decoded; the message gives the reason."""


class Recording:
    """The first audio track of a source that FFmpeg can open.

    Args:
        source: path, address, or binary stream.
        name: name of the source in messages; the default is the path.
        rate: sampling rate of raw 16-bit little-endian mono samples, in Hz; ``None`` if the source
            has a header.

    Attributes:
        seconds: length of the source, if known before decoding.
        found: codec, rate and channels, for messages.
    """

    def __init__(
        self, source: str | Path | IO[bytes], name: str | None = None, rate: int | None = None
    ) -> None:
        # The import is slow, and most dev sets do not need it.
        import av

        self._name = name or str(source)
        self._hint = ""
        # The hint only helps with a pipe or another stream without a rate.
        if not isinstance(source, str | Path) and not rate:
            self._hint = HINT
        self._av = av
        self._errors = (av.FFmpegError, ValueError)
        options: dict[str, Any] = {}
        if rate is not None:
            options["format"] = "s16le"
            options["options"] = {"sample_rate": str(rate), "ch_layout": "mono"}
        elif self._name.startswith("http"):
            options["options"] = ADDRESS
        # FFmpeg would read "12:30 talk.wav" as an address.
        if isinstance(source, Path) or (isinstance(source, str) and "://" not in source):
            _warn_about_header(Path(source))
            source = f"file:{source}"
        try:
            self._container: Any = av.open(source, **options)
        except self._errors as error:
            raise self._failed(error) from error
        if not self._container.streams.audio:
            self._container.close()
            raise AudioError(f"{self._name} has no audio track")
        self._stream = self._container.streams.audio[0]
        codec = self._stream.codec_context
        length = self._container.duration
        self.seconds: float | None = None
        if length:
            self.seconds = length / av.time_base
        # The sign of the second channel, and the decaying powers of sum and difference.
        self._sign = 1.0
        self._powers = np.zeros(2)
        self.found = f"{codec.name}, {codec.sample_rate} Hz, {codec.channels} channel(s)"

    def _failed(self, error: Exception) -> AudioError:
        cause = getattr(error, "strerror", error)
        return AudioError(f"{self._name} cannot be decoded: {cause}{self._hint}")

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self._container.close()

    def __iter__(self) -> Iterator[FloatArray]:
        """Yield pieces of any length; a float recording may exceed [-1, 1]."""
        marks = self._av.format.Flags
        is_stream = self.seconds is None or self._container.format.flags & marks.ts_discont.value
        clock = (self._container.start_time or 0) / self._av.time_base
        longest_s = START_S
        # The times of a file begin at 0, so silence before its audio is kept.
        if not is_stream and clock < START_S:
            clock = 0.0
        form = None
        resampler = None
        try:
            # ``None`` marks the end of the last format.
            for frame in chain(self._frames(), [None]):
                new_form = None
                at = clock
                if frame is not None:
                    new_form = (frame.format.name, frame.layout.name, frame.sample_rate)
                    if frame.time is not None:
                        at = frame.time
                gap_s = at - clock
                if not GAP_S < gap_s < longest_s:
                    gap_s = 0.0
                if resampler is None or new_form != form or gap_s:
                    # The resampler holds back the last samples before a change or a gap.
                    if resampler is not None:
                        yield from map(self._mono, resampler.resample(None))
                    if gap_s > NOTED_S:
                        _warn(f"{self._name}: {gap_s:.0f} s without audio become silence")
                    for _ in range(round(100 * gap_s)):
                        yield np.zeros(SAMPLE_RATE // 100, np.float32)
                    form = new_form
                    resampler = self._resampler(frame)
                if frame is not None:
                    clock = at + frame.samples / frame.sample_rate
                    longest_s = JUMP_S if is_stream else inf
                    yield from map(self._mono, resampler.resample(frame))
        except self._errors as error:
            raise self._failed(error) from error

    def _frames(self) -> Iterator[Any]:
        """Yield the frames that can be decoded."""
        for packet in self._container.demux(self._stream):
            try:
                yield from packet.decode()
            except self._av.error.InvalidDataError:
                _warn(f"{self._name} is damaged; only the decodable part is used")

    def _resampler(self, frame: Any) -> Any:
        """Return a resampler to floats that mixes 3 to 8 channels and keeps other counts."""
        mixed = frame is not None and 2 < frame.layout.nb_channels <= 8
        layout = "mono" if mixed else None
        # Without this option, channels are summed.
        options = {"rematrix_maxval": "1"}
        return self._av.AudioResampler("flt", layout, SAMPLE_RATE, None, options)

    def _mono(self, frame: Any) -> FloatArray:
        """Return the mean of the channels; invert the second of two channels in opposite phase."""
        sound: FloatArray = frame.to_ndarray().reshape(-1, frame.layout.nb_channels).T
        if not np.isfinite(sound).all():
            _warn(f"{self._name} contains NaN or infinite samples, which are replaced")
            sound = np.nan_to_num(sound, nan=0.0, posinf=1.0, neginf=-1.0)
        mixed: FloatArray = sound.mean(axis=0)
        if len(sound) != 2:
            return mixed
        sum_power = 4 * np.square(mixed).sum()
        difference_power = np.square(sound[0] - sound[1]).sum()
        decay = FORGET**frame.samples
        self._powers = self._powers * decay + [sum_power, difference_power]
        same, opposite = self._powers
        earlier_sign = self._sign
        if opposite > OPPOSITE * same:
            self._sign = -1.0
            _warn(f"{self._name}: the second of two channels in opposite phase is inverted")
        elif same >= opposite:
            self._sign = 1.0
        # The sign changes gradually within the frame, without a discontinuity.
        signs = np.linspace(earlier_sign, self._sign, frame.samples, dtype=np.float32)
        mixed += (signs - 1) * sound[1] / 2
        return mixed


def _warn_about_header(path: Path) -> None:
    if not path.is_file():
        return
    rest_s = undeclared_seconds(path)
    if rest_s:
        _warn(f"{path}: {undeclared(rest_s)}")


@cache
def _warn(message: str) -> None:
    """Log a warning once."""
    LOGGER.warning(message)
