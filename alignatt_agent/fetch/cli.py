"""Download the models of a configuration from the Hugging Face hub, at their pinned revisions.

Examples:
  download all models of a configuration:
    alignatt fetch default-low
  print only the sizes and the free disk space:
    alignatt fetch default-low iwslt26-high --dry-run
  download one checkpoint by its id, at its newest commit (ID@COMMIT selects another):
    alignatt fetch Qwen/Qwen3-ASR-0.6B

Files are stored in the hub's cache (set HF_HOME or HF_HUB_CACHE to move it). Run the command again
to resume an interrupted download; complete files are not downloaded again. Weights in formats other
than safetensors are downloaded only if the configuration needs them. Conversions to 8 bits follow
after the last download.

exit status: 0 all files are on this machine; 1 a download failed; 2 failure before the download
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from alignatt_agent.cascade.runtime import Runtime
from alignatt_agent.config.agent_config import ConfigError, ModelConfig, load_config
from alignatt_agent.config.checkpoints import CheckpointError, is_hub_id, title
from alignatt_agent.config.command_line import page
from alignatt_agent.config.resources import known_resources
from alignatt_agent.fetch.conversion import convert, locate_original
from alignatt_agent.fetch.hub import Checkpoint, download, gigabytes, look_up, require_disk


class Files(NamedTuple):
    """What determines the files of a checkpoint: their origin and format."""

    path: str
    revision: str | None
    runtime: str
    gguf: str | None

    @classmethod
    def of(cls, model: ModelConfig) -> Files:
        """Return what determines the files of a model."""
        return cls(model.path, model.revision, model.runtime, model.gguf)


def models_of(names: Sequence[str]) -> list[ModelConfig]:
    """Return the models of configurations, or of hub ids such as ``owner/name@commit``.

    Models with the same files and the same conversion are listed once.
    """
    models: dict[tuple[Files, str | None], ModelConfig] = {}
    for name in names:
        for model in _named_models(name):
            models[Files.of(model), model.quantize] = model
    return list(models.values())


def _named_models(name: str) -> list[ModelConfig]:
    """Return the models of one configuration, or of one hub id."""
    path, _, revision = name.partition("@")
    single = ModelConfig(path=path, revision=revision or None)
    if is_hub_id(single) and not name.endswith((".yaml", ".yml")):
        return [single]
    config = load_config(name)
    models = config.models
    with suppress(ConfigError):  # unknown size, or too large: keep the configured models
        models = Runtime().planned(config)  # a small GPU gets the smaller recognizer
    return [getattr(models, role) for role in models.roles]


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = argparse.ArgumentParser("alignatt fetch", **page(__doc__))
    packaged = ", ".join(known_resources("agent_configs", ".yaml"))
    text = f"configurations ({packaged}, or YAML files), or checkpoints (ID or ID@COMMIT)"
    parser.add_argument("names", nargs="+", metavar="CONFIG", help=text)
    parser.add_argument("--dry-run", action="store_true", help="print sizes without downloading")
    return parser


def plan(models: Sequence[ModelConfig]) -> list[Checkpoint]:
    """Print where the files of models are; return the checkpoints that need the network.

    A pinned checkpoint that is complete on this machine needs no network. Files that several models
    use, converted or not, are listed once.
    """
    checkpoints: list[Checkpoint] = []
    models_by_files = {Files.of(model): model for model in models}
    for model in models_by_files.values():
        if not is_hub_id(model) or Path(model.path).exists():
            print(f"{model.path}: {locate_original(model)} (local, not from the hub)")
            continue
        if model.revision is not None:
            with suppress(CheckpointError):
                print(f"{title(model)}: {locate_original(model)}")
                continue
        checkpoint = look_up(model)
        checkpoints.append(checkpoint)
        size, missing = gigabytes(checkpoint.size), gigabytes(checkpoint.missing)
        print(f"{model.path}@{checkpoint.commit}: {size}, {missing} missing")
    return checkpoints


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    arguments = build_parser().parse_args(argv)
    models = models_of(arguments.names)
    checkpoints = plan(models)
    if checkpoints:
        missing = sum(checkpoint.missing for checkpoint in checkpoints)
        print(require_disk(missing), flush=True)
    if arguments.dry_run:
        return 0
    for checkpoint in checkpoints:
        download(checkpoint)
        model = checkpoint.model
        print(f"{title(model)}: downloaded to {locate_original(model)}", flush=True)
        if model.revision is None:
            print(f"  not pinned: set its `revision` to {checkpoint.commit}")
    # A failed conversion must not prevent a later download.
    for model in models:
        convert(model)
    return 0
