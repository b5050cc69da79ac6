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

import argparse
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from alignatt_agent.cascade.runtime import Runtime
from alignatt_agent.config.agent_config import ConfigError, ModelConfig, load_config
from alignatt_agent.config.checkpoints import CheckpointError, is_hub_id, title
from alignatt_agent.config.command_line import page
from alignatt_agent.config.resources import known_resources
from alignatt_agent.fetch.conversion import convert, locate_original
from alignatt_agent.fetch.hub import Checkpoint, download, gigabytes, look_up, require_disk


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


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = argparse.ArgumentParser("alignatt fetch", **page(__doc__))
    known = ", ".join(known_resources("agent_configs", ".yaml"))
    text = f"configurations ({known}, or YAML files), or checkpoints (ID or ID@COMMIT)"
    parser.add_argument("names", nargs="+", metavar="CONFIG", help=text)
    parser.add_argument("--dry-run", action="store_true", help="print sizes without downloading")
    return parser


def plan(models: Sequence[ModelConfig]) -> list[Checkpoint]:
    """Print where the files of models are; return the checkpoints that need the network.

    A pinned checkpoint that is complete on this machine needs no network.
    """
    checkpoints: list[Checkpoint] = []
    for model in models:
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
        print(require_disk(sum(item.missing for item in checkpoints)), flush=True)
    if arguments.dry_run:
        return 0
    for checkpoint in checkpoints:
        download(checkpoint)
        model = checkpoint.model
        print(f"{title(model)}: downloaded to {locate_original(model)}", flush=True)
        if model.revision is None:
            print(f"  not pinned: set its `revision` to {checkpoint.commit}")
    for model in models:
        convert(model)
    return 0
