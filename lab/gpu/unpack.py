"""Put the parts of a bundle together again; runs without anything installed."""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import sys
import tarfile
from pathlib import Path


class Joined:
    """Several files, read as one."""

    def __init__(self, paths: list[Path]) -> None:
        self._paths = paths
        self._stream = None

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes; none at the end."""
        while self._stream or self._paths:
            self._stream = self._stream or self._paths.pop(0).open("rb")
            data = self._stream.read(size)
            if data:
                return data
            self._stream = self._stream.close()
        return b""


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = argparse.ArgumentParser(prog="python -m lab.gpu.unpack", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR", help="with all parts and MANIFEST.json")
    parser.add_argument("target", type=Path, metavar="TARGET", help="for PYTHONPATH")
    return parser


def main() -> int:
    """Check and unpack; returns the exit status."""
    arguments = build_parser().parse_args()
    folder, target = arguments.folder, arguments.target
    manifest = json.loads((folder / "MANIFEST.json").read_text())
    wrong = []
    for name, digest in manifest["parts"].items():
        path = folder / name
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            wrong.append(name)
    if wrong:
        print(f"unpack: missing or damaged in {folder}: {', '.join(wrong)}", file=sys.stderr)
        return 1
    target.mkdir(parents=True, exist_ok=True)
    joined = Joined([folder / name for name in sorted(manifest["parts"])])
    with lzma.LZMAFile(joined) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        archive.extractall(target, filter="data")
    print(f"unpacked to {target}: export PYTHONPATH={target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
