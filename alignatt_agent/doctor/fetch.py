"""Download the models of a configuration from the Hugging Face hub, at their pinned revisions.

Examples:
  download all models of a configuration:
    alignatt fetch default-low
  print only the sizes and the free disk space:
    alignatt fetch default-low iwslt26-high --dry-run
  download one checkpoint by its id, at its newest commit (ID@COMMIT selects another):
    alignatt fetch Qwen/Qwen3-ASR-0.6B

Files are stored in the hub's cache (set HF_HOME or HF_HUB_CACHE to move it). Run the command again
to resume an interrupted download, even within a file. The SHA-256 of every weight file is checked.
Weights in formats other than safetensors are downloaded only if the configuration needs them.

exit status: 0 all files are on this machine; 1 a download failed; 2 failure before the download
"""

import argparse
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from alignatt_agent.cascade.runtime import Runtime
from alignatt_agent.config.agent_config import ConfigError, ModelConfig, load_config
from alignatt_agent.config.checkpoints import (
    CheckpointError,
    converted,
    find_files,
    is_hub_id,
    locate_one,
    patterns,
    title,
)
from alignatt_agent.config.command_line import page
from alignatt_agent.config.resources import known_resources

PART = ".incomplete"
"""Suffix that the hub's client gives to a file during its download."""


class FetchError(CheckpointError):
    """A download failed; running the command again resumes it."""

    exit_status = 1


class Weights(NamedTuple):
    """A weight file: its URL, path in the cache (named by its SHA-256), and size in bytes."""

    url: str
    blob: Path
    size: int

    def missing(self) -> int:
        """Return the number of bytes that are still to be downloaded."""
        there = [path for path in (self.blob, self.blob.with_suffix(PART)) if path.exists()]
        return self.size - (there[0].stat().st_size if there else 0)

    def fetch(self) -> None:
        """Download the missing bytes, then verify the hash of the file."""
        from huggingface_hub.file_download import http_get
        from huggingface_hub.utils._headers import build_hf_headers

        self.blob.parent.mkdir(parents=True, exist_ok=True)
        with self.blob.with_suffix(PART).open("ab+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # waits for another command's download
            if self.blob.exists():
                return
            there, headers = file.seek(0, os.SEEK_END), build_hf_headers()
            http_get(self.url, file, resume_size=there, headers=headers, expected_size=self.size)
            file.seek(0)
            if hashlib.file_digest(file, "sha256").hexdigest() != self.blob.name:
                Path(file.name).unlink()
                raise FetchError(f"deleted the damaged download of {self.url}; run fetch again")
            Path(file.name).rename(self.blob)


class Checkpoint(NamedTuple):
    """A checkpoint on the hub: its commit, its total size in bytes, and its weight files."""

    model: ModelConfig
    commit: str
    size: int
    weights: tuple[Weights, ...]

    def missing(self) -> int:
        """Return the number of weight bytes that are still to be downloaded."""
        return sum(file.missing() for file in self.weights)


def look_up(model: ModelConfig) -> Checkpoint:
    """Look up the files of a checkpoint on the hub, and check the user's access to them."""
    from huggingface_hub import HfApi, constants, hf_hub_url
    from huggingface_hub.file_download import repo_folder_name
    from huggingface_hub.utils._paths import filter_repo_objects

    with _explained(model):
        HfApi().auth_check(model.path)
        info = HfApi().model_info(model.path, revision=model.revision, files_metadata=True)
    found, commit = info.siblings or [], info.sha or "main"
    kept = [*filter_repo_objects(found, key=lambda x: x.rfilename, **patterns(model))]
    cache = repo_folder_name(repo_id=model.path, repo_type="model")
    blobs = Path(constants.HF_HUB_CACHE, cache, "blobs")
    weights = tuple(
        Weights(hf_hub_url(model.path, x.rfilename, revision=commit), blobs / x.lfs.sha256, x.size)
        for x in kept
        if x.lfs and x.size
    )
    return Checkpoint(model, commit, sum(file.size or 0 for file in kept), weights)


@contextmanager
def _explained(model: ModelConfig) -> Iterator[None]:
    """Replace errors of the hub's client with errors that name the fix."""
    from huggingface_hub import constants, errors

    address, login = f"{constants.ENDPOINT}/{model.path}", "run `hf auth login` (or set HF_TOKEN)"
    try:
        yield
    except FetchError:
        raise
    except errors.GatedRepoError:
        reason = f"the license must be accepted first: open {address}, accept it, {login}"
    except errors.RepositoryNotFoundError:
        reason = f"{address} does not exist or is private: correct the id, or {login}"
    except errors.RevisionNotFoundError:
        reason = f"{address} does not have this revision: correct the revision"
    except Exception as error:  # HTTP errors differ between versions of the hub's client
        raise FetchError(
            f"{title(model)}: {address} failed ({type(error).__name__}: {error}); check the "
            "network, the proxy and HF_HUB_OFFLINE; run the command again to resume"
        ) from error
    else:
        return
    raise CheckpointError(f"{title(model)}: {reason}, then run this command again")


def require_disk(checkpoints: Sequence[Checkpoint]) -> str:
    """Report the download size and the free space; raise an error if the space is too small."""
    from huggingface_hub import constants

    cache = Path(constants.HF_HUB_CACHE)
    disk = next(folder for folder in (cache, *cache.absolute().parents) if folder.exists())
    needed, free = sum(item.missing() for item in checkpoints), shutil.disk_usage(disk).free
    line = f"{_gb(needed)} to download, {_gb(free)} free in {cache}"
    if needed > free:
        fix = f"free another {_gb(needed - free)}, or set HF_HOME to a folder on a larger disk"
        raise CheckpointError(f"{line}: {fix}")
    return line


def fetch(checkpoint: Checkpoint) -> Path:
    """Download a checkpoint; return its folder in the cache."""
    from huggingface_hub import snapshot_download

    model = checkpoint.model
    with _explained(model):
        for weights in checkpoint.weights:  # in this thread, so that Ctrl-C stops it immediately
            weights.fetch()
        snapshot_download(model.path, revision=model.revision, **patterns(model))
    convert(model)
    return locate_one(model)


def convert(model: ModelConfig) -> None:
    """Convert a checkpoint to 8 bits if this is configured and not done yet."""
    original = find_files(model)
    if model.quantize is None or original is None:
        return
    if model.gguf is not None and not (original / model.gguf).is_file():  # not downloaded yet
        return
    folder = converted(original, model.gguf)
    if folder.exists():
        return
    from alignatt_agent.engine.quantize import quantize

    print(f"{title(model)}: converting to 8 bits (takes about two minutes)", flush=True)
    quantize(original, folder, model.gguf)


def models_of(names: Sequence[str]) -> list[ModelConfig]:
    """Return the models of configurations, or of hub ids such as ``owner/name@commit``."""
    found: dict[tuple[str, str | None], ModelConfig] = {}
    for name in names:
        path, _, revision = name.partition("@")
        models = [ModelConfig(path=path, revision=revision or None)]
        if not is_hub_id(models[0]) or name.endswith((".yaml", ".yml")):
            config = load_config(name)
            chosen = config.models
            with suppress(ConfigError):  # unknown size, or too large: keep the configured models
                chosen = Runtime().planned(config)  # a small GPU gets the smaller recognizer
            models = [getattr(chosen, role) for role in chosen.roles]
        found |= {(model.path, model.revision): model for model in models}
    return list(found.values())


def _gb(size: int) -> str:
    return f"{size / 1e9:.2f} GB"


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = argparse.ArgumentParser("alignatt fetch", **page(__doc__))
    known = ", ".join(known_resources("agent_configs", ".yaml"))
    text = f"configurations ({known}, or YAML files), or checkpoints (ID or ID@COMMIT)"
    parser.add_argument("names", nargs="+", metavar="CONFIG", help=text)
    parser.add_argument("--dry-run", action="store_true", help="print sizes without downloading")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    arguments = build_parser().parse_args(argv)
    checkpoints = []
    for model in models_of(arguments.names):
        if not arguments.dry_run:
            convert(model)
        if not is_hub_id(model) or Path(model.path).exists():
            print(f"{model.path}: {locate_one(model)} (local, not from the hub)")
            continue
        with suppress(CheckpointError):  # a local checkpoint needs no network
            there = locate_one(model)
            if model.revision:
                print(f"{title(model)}: {there}")
                continue
        found = look_up(model)
        checkpoints.append(found)
        print(f"{model.path}@{found.commit}: {_gb(found.size)}, {_gb(found.missing())} missing")
    if checkpoints:
        print(require_disk(checkpoints), flush=True)
    for item in [] if arguments.dry_run else checkpoints:
        print(f"{title(item.model)}: downloaded to {fetch(item)}", flush=True)
        if item.model.revision is None:
            print(f"  not pinned: set its `revision` to {item.commit}")
    return 0
