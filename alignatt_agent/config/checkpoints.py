"""Find checkpoints, and check their completeness and identity."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from alignatt_agent.config.agent_config import ModelConfig, ModelsConfig
from alignatt_agent.config.cache_folders import cache_folder, hub_cache
from alignatt_agent.config.digests import short_digest
from alignatt_agent.config.resources import find_path
from alignatt_agent.types import AlignAttError

EMBEDDED = "micro_models"
"""Folder of the checkpoints that are part of the repository."""

NOT_FETCHED = [
    "*.bin",
    "*.ckpt",
    "*.gguf",
    "*.h5",
    "*.msgpack",
    "*.onnx*",
    "*.pt",
    "*.pth",
    "*.fp32*",
    "original/*",
    "onnx/*",
]
"""Patterns of files that are not needed: weights in other formats."""

CTRANSLATE2 = ("config.json", "model.bin", "tokenizer.json")
"""Files of Whisper in CTranslate2's format, except the vocabulary, which is text or JSON."""

_TOKENIZERS = ("tokenizer.json", "vocab.json", "*.model")

_HASH_WHOLE_BELOW = 64 * 1024 * 1024


class CheckpointError(AlignAttError, RuntimeError):
    """A checkpoint is missing or incomplete; the message states how to fix this."""


def is_embedded(models: ModelsConfig) -> bool:
    """Return whether any of the models is part of the repository."""
    return any(EMBEDDED in Path(getattr(models, role).path).parts for role in models.roles)


def locate(models: ModelsConfig) -> ModelsConfig:
    """Return ``models`` with local directories as paths; an error lists all missing checkpoints.

    Nothing is downloaded: a run with missing checkpoints stops immediately.
    """
    located: dict[str, ModelConfig] = {}
    problems: list[str] = []
    for role in models.roles:
        model: ModelConfig = getattr(models, role)
        try:
            path = locate_one(model)
        except CheckpointError as error:
            problems.append(f"{role}: {error}")
        else:
            # A revision is meaningless for the directory that contains its files.
            located[role] = model.model_copy(update={"path": str(path), "revision": None})
    if problems:
        raise CheckpointError("missing checkpoints\n  " + "\n  ".join(problems))
    return ModelsConfig(**located)


def locate_one(model: ModelConfig) -> Path:
    """Return the local directory of one complete checkpoint.

    Relative paths are looked up in the working directory and in the checkout. Ids on the
    Hugging Face hub are looked up in the hub's local cache.
    """
    folder = find_files(model)
    if folder is None:
        raise CheckpointError(f"{title(model)} is not on this machine; {_remedy(model)}")
    if model.quantize is not None:
        folder = converted(folder, model.gguf)
        if not folder.exists():
            fix = f"run `alignatt fetch` with this configuration to create {folder}"
            raise CheckpointError(f"{title(model)} has not been converted to 8 bits; {fix}")
    _require_complete(folder, model)
    return folder


CONVERSION = "float32 scales"
"""What the current conversion to 8 bits does; a change makes `alignatt fetch` convert again."""


def converted(original: Path, gguf: str | None = None) -> Path:
    """Return the folder for the 8-bit form of a checkpoint, or of one GGUF file in its folder."""
    weights = original
    if gguf is not None:
        weights = original / gguf
    # The name depends on the content, so that a new revision gets a conversion of its own.
    key = f"{fingerprint(weights)}:{gguf}:{CONVERSION}"
    name = short_digest([key.encode()])
    return cache_folder() / "int8" / name


def patterns(model: ModelConfig) -> dict[str, Any]:
    """Return the patterns of the files to download, as arguments for the hub's client."""
    if model.gguf is not None:
        return {"allow_patterns": [model.gguf]}
    if model.runtime == "ctranslate2":
        return {"allow_patterns": [*CTRANSLATE2, "vocabulary.*"]}
    return {"ignore_patterns": NOT_FETCHED}


def find_files(model: ModelConfig) -> Path | None:
    """Return a checkpoint's local directory, complete or not, or ``None`` if there is none."""
    with contextlib.suppress(FileNotFoundError):
        return find_path(model.path)
    if not is_hub_id(model):
        return None
    from huggingface_hub import snapshot_download

    with contextlib.suppress(FileNotFoundError):  # the base class of the hub client's error
        folder = snapshot_download(
            model.path,
            revision=model.revision,
            cache_dir=hub_cache(),
            local_files_only=True,
            **patterns(model),
        )
        return Path(folder)
    return None


def require_tokenizer(role: str, model: ModelConfig) -> None:
    """Reject a located checkpoint without a tokenizer: Transformers would create an empty one."""
    path = Path(model.path)
    for pattern in _TOKENIZERS:
        if any(path.glob(pattern)):
            return
    raise CheckpointError(
        f"{role} model {path} has no tokenizer; expected {' or '.join(_TOKENIZERS)} next to "
        f"config.json: fetch the complete checkpoint"
    )


def fingerprint(path: Path) -> str:
    """Return a 12-digit hexadecimal hash of a file or directory, excluding compiled Python files.

    For files of 64 MiB or more, only the size and the first MiB are hashed.
    """
    return short_digest(_hashed_parts(path))


def _hashed_parts(path: Path) -> Iterator[bytes]:
    """Yield the name, size and content of each file of ``fingerprint``, one file in memory."""
    files = [path]
    if not path.is_file():
        files = sorted(file for file in path.rglob("*") if file.is_file())
    for file in files:
        # A run of model code that comes with the weights writes compiled files beside it.
        if file.suffix == ".pyc":
            continue
        size = file.stat().st_size
        yield f"{file.relative_to(path)}:{size}:".encode()
        # The first MiB of weights contains the names and shapes of the tensors.
        hashed_bytes = size if size < _HASH_WHOLE_BELOW else 1 << 20
        with file.open("rb") as stream:
            yield stream.read(hashed_bytes)


def identity(model: ModelConfig, located: ModelConfig) -> str:
    """Identify a checkpoint in a signature: ``id@revision``, or the path with a fingerprint."""
    if model.revision:
        return title(model)
    return f"{model.path}#sha256:{fingerprint(Path(located.path))}"


def weight_bytes(model: ModelConfig) -> int:
    """Return the size of the weight files of a located checkpoint, in bytes."""
    return sum(path.stat().st_size for path in Path(model.path).glob("*.safetensors"))


def is_hub_id(model: ModelConfig) -> bool:
    """Return whether a path looks like a hub id, ``owner/name``."""
    parts = model.path.split("/")
    # Some relative paths have two parts, too: ./model, micro_models/model.
    return len(parts) == 2 and all(parts) and parts[0] not in (".", "..", "~", EMBEDDED)


def title(model: ModelConfig) -> str:
    """Return the name of a configured checkpoint: its path, with the revision if pinned."""
    if model.revision:
        return f"{model.path}@{model.revision}"
    return model.path


def _require_complete(path: Path, model: ModelConfig) -> None:
    """Reject a directory without all files that the model's runtime reads."""
    required = ["config.json"]
    if model.runtime == "ctranslate2":
        required = list(CTRANSLATE2)
    index = path / "model.safetensors.index.json"
    if index.is_file():
        shards = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
        required += sorted(set(shards))
    missing = [name for name in required if not (path / name).is_file()]
    if not index.is_file() and model.runtime == "vllm" and not any(path.glob("*.safetensors")):
        missing.append("*.safetensors")
    if missing:
        raise CheckpointError(
            f"{title(model)} in {path} is incomplete (missing: {', '.join(missing)}); "
            f"{_remedy(model)}"
        )


def _remedy(model: ModelConfig) -> str:
    if model.path.split("/")[0] == EMBEDDED:
        return (
            f"{EMBEDDED}/ is part of the repository: run from a checkout, restore the folder with "
            f"`git checkout -- {EMBEDDED}`, or rebuild it with `make micro-models`"
        )
    if is_hub_id(model):
        return f"fetch it with `alignatt fetch {title(model)}`"
    return (
        "the path is neither in the working directory nor in the checkout; "
        "correct the path in the configuration"
    )
