"""Find audio that the header of a WAV file does not declare, and that therefore nobody reads."""

import os
import struct
from pathlib import Path
from typing import IO

_UNKNOWN = (0, 0xFFFFFFFF)
"""Sizes that programs write to a pipe, where the final size is unknown; FFmpeg reads to the end."""


def undeclared_seconds(path: Path) -> float:
    """Return the seconds of audio after the end that a WAV file's header declares, or 0.

    A recorder that is killed leaves such a header. Later chunks of a valid file are not audio.
    """
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        head = stream.read(12)
        if head[:4] not in (b"RIFF", b"RF64", b"BW64") or head[8:] != b"WAVE":
            return 0.0
        bytes_per_second = 0
        size_64: int | None = None
        while chunk := _chunk(stream):
            name, length = chunk
            begin = stream.tell()
            if name in (b"fmt ", b"ds64"):
                fields = stream.read(16)
                if len(fields) < 16:  # the file ends inside its header
                    return 0.0
                if name == b"fmt ":
                    bytes_per_second = struct.unpack("<I", fields[8:12])[0]
                else:
                    size_64 = struct.unpack("<Q", fields[8:])[0]
            if name == b"data":
                # Files of more than 4 GiB (RF64) declare the size of the audio in ``ds64``.
                if size_64 is not None:
                    length = size_64
                elif length in _UNKNOWN:
                    return 0.0
                end = begin + length + length % 2
                if not bytes_per_second or end >= size:
                    return 0.0
                stream.seek(end)
                if _valid_chunks(stream, size):
                    return 0.0
                return (size - end) / bytes_per_second
            stream.seek(begin + length + length % 2)
    return 0.0


def undeclared(seconds: float) -> str:
    """Describe audio that the header of a WAV file does not declare."""
    return (
        f"the file has {seconds:.2f} s more audio than its header declares; this audio is not "
        f"read. To read it, run: ffmpeg -ignore_length 1 -i FILE NEW.wav"
    )


def _chunk(stream: IO[bytes]) -> tuple[bytes, int] | None:
    """Read the name and the length of the next chunk; return ``None`` at the end."""
    head = stream.read(8)
    return (head[:4], struct.unpack("<I", head[4:])[0]) if len(head) == 8 else None


def _valid_chunks(stream: IO[bytes], size: int) -> bool:
    """Return whether the rest of a file consists of chunks."""
    while size - stream.tell() >= 8:
        begin = stream.tell()
        chunk = _chunk(stream)
        assert chunk is not None
        name, length = chunk
        if not all(0x20 <= byte < 0x7F for byte in name) or begin + 8 + length > size:
            return False
        stream.seek(begin + 8 + length + length % 2)
    return True
