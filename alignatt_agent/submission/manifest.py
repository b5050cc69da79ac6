"""``SHA256SUMS``: checksums of every file of a bundle, readable by ``sha256sum -c``."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tqdm import tqdm

from alignatt_agent.evaluation.check_log import Finding
from alignatt_agent.submission.bundle import Bundle

_BLOCK = 1 << 20


def write_manifest(bundle: Bundle, progress: bool = False) -> int:
    """Write the checksums of all files below the root; returns how many there are."""
    lines = [
        f"{sha256(path)}  {path.relative_to(bundle.root).as_posix()}\n"
        for path in tqdm(_files(bundle), "checksums", disable=not progress, leave=False)
    ]
    bundle.sums.write_text("".join(lines), encoding="utf-8")
    return len(lines)


def check_manifest(bundle: Bundle, progress: bool = False) -> list[Finding]:
    """Compare every file with its checksum."""
    fix = "restore the file from the bundle that was built, or build the bundle again"
    if not bundle.sums.is_file():
        return [Finding("checksum", bundle.sums.name, "the file is missing", fix)]
    expected: dict[str, str] = {}
    findings: list[Finding] = []
    for number, line in enumerate(bundle.sums.read_text(encoding="utf-8").splitlines(), 1):
        digest, separator, name = line.partition("  ")
        if not separator or len(digest) != 64 or not _inside(name):
            message = f"line {number} is {line!r}, expected a SHA-256, two spaces and a file name"
            findings.append(Finding("checksum", bundle.sums.name, message, fix))
        else:
            expected[name] = digest
    found = {path.relative_to(bundle.root).as_posix(): path for path in _files(bundle)}
    findings += [
        Finding("checksum", name, "listed in SHA256SUMS but missing", fix)
        for name in sorted(expected.keys() - found.keys())
    ]
    findings += [
        Finding(
            "checksum",
            name,
            "not listed in SHA256SUMS: it was added after the bundle was built",
            "remove it, or build the bundle again",
        )
        for name in sorted(found.keys() - expected.keys())
    ]
    common = sorted(found.keys() & expected.keys())
    for name in tqdm(common, "checksums", disable=not progress, leave=False):
        digest = sha256(found[name])
        if digest != expected[name]:
            message = f"changed: its SHA-256 is {digest[:12]}…, expected {expected[name][:12]}…"
            findings.append(Finding("checksum", name, message, fix))
    return findings


def sha256(path: Path) -> str:
    """Return the checksum of a file, hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _files(bundle: Bundle) -> list[Path]:
    files = (path for path in bundle.root.rglob("*") if path.is_file() and path != bundle.sums)
    return sorted(files)


def _inside(name: str) -> bool:
    path = Path(name)
    return bool(name) and not path.is_absolute() and ".." not in path.parts
