"""Put the parts of a bundle together again; runs without anything installed."""

import argparse
import hashlib
import json
import sys
import tarfile
from pathlib import Path


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
    whole = target / "bundle.tar.xz"
    with whole.open("wb") as stream:
        for name in sorted(manifest["parts"]):
            stream.write((folder / name).read_bytes())
    with tarfile.open(whole) as archive:
        archive.extractall(target, filter="data")
    whole.unlink()
    print(f"unpacked to {target}: export PYTHONPATH={target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
