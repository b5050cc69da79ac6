"""Convert downloaded checkpoints to 8 bits if their configuration requests it."""

from pathlib import Path

from alignatt_agent.config.agent_config import ModelConfig
from alignatt_agent.config.checkpoints import (
    CheckpointError,
    converted,
    find_files,
    locate_one,
    title,
)


def locate_original(model: ModelConfig) -> Path:
    """Return the local directory of a complete checkpoint, before its conversion.

    Raises:
        CheckpointError: the checkpoint is not on this machine, or a file is missing.
    """
    if model.gguf is None:
        return locate_one(model.model_copy(update={"quantize": None}))
    folder = find_files(model)
    if folder is None or not (folder / model.gguf).is_file():
        raise CheckpointError(
            f"{title(model)}: {model.gguf} is not on this machine; expected it in "
            f"{folder or model.path}: run `alignatt fetch` with this configuration"
        )
    return folder


def convert(model: ModelConfig) -> None:
    """Convert a downloaded checkpoint to 8 bits if this is configured and not done yet.

    Raises:
        CheckpointError: the checkpoint to convert is not on this machine, or a file is missing.
    """
    if model.quantize is None:
        return
    original = locate_original(model)
    folder = converted(original, model.gguf)
    if folder.exists():
        return
    from alignatt_agent.engine.quantize import quantize

    print(f"{title(model)}: converting to 8 bits (takes about two minutes)", flush=True)
    quantize(original, folder, model.gguf)
    print(f"{title(model)}: converted to {folder}", flush=True)
