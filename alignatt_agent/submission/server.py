"""Entry point of the image: check what can be checked, then become Simulstream's HTTP server.

The server itself is the official one, unchanged. What its route would break without us:

* It clears a session ``ttl`` seconds after its last request *began*, in mid-call if need be, and
  gives the next chunk to another processor. Hence a long ``ttl`` (checked), engines that are warm
  before the port opens, and YAML files with both languages: a processor that was cleared comes
  back in the right direction.
* A client that finds no free processor, or whose chunk fails, gets no answer at all. Hence spare
  processors, and everything that can fail is tried before the port opens.
* It hands out read-only samples and calls from a new thread for every request: the agent copies
  and locks.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
from pathlib import Path

import yaml

from alignatt_agent.config.agent_config import AgentConfig, ConfigError
from alignatt_agent.config.checkpoints import CheckpointError
from alignatt_agent.config.resolved import resolve
from alignatt_agent.submission.image import is_local
from alignatt_agent.submission.server_config import SERVER_MODULE, read_server


def server_command(root: Path, system: str | None, server: Path | None = None) -> list[str]:
    """Check everything short of loading the models; return the command of the official server.

    Args:
        root: folder with ``server.yaml`` and ``systems/``.
        system: e.g. ``"low/en-de"``.
        server: another server configuration.

    Raises:
        ConfigError: a configuration is missing or not valid, or the port is taken.
        CheckpointError: weights are missing.
        HeadSetError: a head set is missing or does not fit.
    """
    agent = find_system(root, system)
    config = _read_agent(agent)
    settings = server or root / "server.yaml"
    options = read_server(settings)
    try:
        resolve(config)
    except CheckpointError as error:
        raise CheckpointError(f"{error}\n{_mount_hint(config)}") from None
    _check_device()
    _check_port(options["hostname"], options["port"], settings)
    return [
        *(sys.executable, "-m", SERVER_MODULE),
        *("--server-config", str(settings)),
        *("--speech-processor-config", str(agent)),
    ]


def become(command: list[str]) -> None:
    """Replace this process by ``command``: signals reach the server itself."""
    sys.stdout.flush()
    sys.stderr.flush()
    # A shell starts background commands with SIGINT ignored, and that outlives exec.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.execv(command[0], command)


def known_systems(root: Path) -> list[str]:
    """Names of the systems that can be served."""
    folder = root / "systems"
    return sorted(
        path.relative_to(folder).with_suffix("").as_posix() for path in folder.glob("*/*.yaml")
    )


def find_system(root: Path, system: str | None) -> Path:
    """Return the speech processor YAML of a system.

    Raises:
        ConfigError: there is none of that name.
    """
    known = known_systems(root)
    if system not in known:
        asked = f"no system named {system!r}" if system else "which system?"
        raise ConfigError(f"{asked} {root / 'systems'} has: {', '.join(known) or 'none'}")
    return root / "systems" / f"{system}.yaml"


def _read_agent(path: Path) -> AgentConfig:
    raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    config = AgentConfig.parse(raw if isinstance(raw, dict) else {}, str(path))
    if config.target_language is None:
        raise ConfigError(
            f"{path} has no target_language: set it, so that a session which the server cleared "
            f"goes on in the right language"
        )
    return config


def _mount_hint(config: AgentConfig) -> str:
    models = (config.models.asr, config.models.aligner, config.models.translation)
    if all(is_local(model.path) for model in models):
        return f"relative paths are looked up in {Path.cwd()}: mount the weights there"
    home = os.environ.get("HF_HOME", "~/.cache/huggingface")
    return (
        f"looked in HF_HOME={home}: fetch the weights with fetch_weights.sh and mount them, "
        f"-v FOLDER:/weights:ro, or build the image with --build-arg WEIGHTS=baked"
    )


def _check_device() -> None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        version("vllm")
    except PackageNotFoundError:
        return  # the CPU build
    if shutil.which("nvidia-smi") is None:
        raise ConfigError(
            "vLLM with CUDA is installed but no NVIDIA driver is visible: start the container with "
            "--gpus device=0, or build the image with --build-arg EXTRA=cpu"
        )


def _check_port(hostname: str, port: int, settings: Path) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((hostname, port))
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {hostname}:{port} ({error.strerror}): stop what uses the port, "
                f"or change {settings}"
            ) from None
