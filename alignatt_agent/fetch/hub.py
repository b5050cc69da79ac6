"""Look up and download checkpoints with the client of the Hugging Face hub."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tqdm import tqdm

from alignatt_agent.config.agent_config import ModelConfig
from alignatt_agent.config.cache_folders import hub_cache
from alignatt_agent.config.checkpoints import CheckpointError, patterns, title


class FetchError(CheckpointError):
    """A download failed; running the command again resumes it."""

    exit_status = 1


class Checkpoint(NamedTuple):
    """A checkpoint on the hub: its commit, its size, and the size of its missing files, in bytes.

    ``missing_files`` contains the names of the files that are not in the cache, smallest first.
    """

    model: ModelConfig
    commit: str
    size: int
    missing: int
    missing_files: tuple[str, ...]


class _NoBar(tqdm):  # type: ignore[misc]
    """Hides the progress bars of a dry run, which downloads nothing."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **{**settings, "disable": True})


def look_up(model: ModelConfig) -> Checkpoint:
    """Look up the files of a checkpoint on the hub, and check the user's access to them.

    Raises:
        CheckpointError: the hub refuses the checkpoint, or contains no file of it.
        ConfigError: there is no folder for checkpoints.
        FetchError: the hub cannot be reached.
    """
    from huggingface_hub import HfApi, snapshot_download

    cache = hub_cache()
    with _explained(model):
        HfApi().auth_check(model.path)
        files = snapshot_download(
            model.path,
            revision=model.revision,
            cache_dir=cache,
            dry_run=True,
            tqdm_class=_NoBar,
            **patterns(model),
        )
    if not files:
        raise CheckpointError(f"{title(model)}: no file on the hub matches {patterns(model)}")
    size = 0
    missing_sizes: dict[str, int] = {}
    for file in files:
        # The hub's client allows files of unknown size.
        file_size = file.file_size or 0
        size += file_size
        if file.will_download:
            missing_sizes[file.filename] = file_size
    return Checkpoint(
        model=model,
        commit=files[0].commit_hash,
        size=size,
        missing=sum(missing_sizes.values()),
        missing_files=tuple(sorted(missing_sizes, key=missing_sizes.__getitem__)),
    )


def require_disk(needed: int) -> str:
    """Report a download size in bytes and the free space; raise an error if it is too small."""
    cache = hub_cache()
    # Before the first download, the cache does not exist, and neither may its parent.
    existing = cache
    for folder in cache.absolute().parents:
        if existing.exists():
            break
        existing = folder
    free = shutil.disk_usage(existing).free
    line = f"{gigabytes(needed)} to download, {gigabytes(free)} free in {cache}"
    if needed > free:
        space = gigabytes(needed - free)
        fix = f"free another {space}, or set HF_HOME to a folder on a larger disk"
        raise CheckpointError(f"{line}: {fix}")
    return line


def download(checkpoint: Checkpoint) -> None:
    """Download the missing files of a checkpoint into the hub's cache."""
    from huggingface_hub import hf_hub_download, snapshot_download

    model = checkpoint.model
    with _explained(model):
        if len(checkpoint.missing_files) > 1:
            smallest = checkpoint.missing_files[0]
            # This call also writes the list of all files to the cache. With this list, `find_files`
            # recognizes an interrupted download.
            snapshot_download(model.path, revision=checkpoint.commit, allow_patterns=[smallest])
        # snapshot_download uses threads, so Ctrl-C would wait for the end of the current files.
        for name in checkpoint.missing_files:
            hf_hub_download(model.path, name, revision=checkpoint.commit)
        snapshot_download(model.path, revision=model.revision, **patterns(model))


def gigabytes(size: int) -> str:
    """Format a number of bytes."""
    return f"{size / 1e9:.2f} GB"


@contextmanager
def _explained(model: ModelConfig) -> Iterator[None]:
    """Replace errors of the hub's client with errors that name the fix."""
    from huggingface_hub import constants, errors

    address = f"{constants.ENDPOINT}/{model.path}"
    login = "run `hf auth login` (or set HF_TOKEN)"
    try:
        yield
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
