"""Entry point of the image: check the system, then run Simulstream's HTTP server, unchanged.

The server has three traps:

* It clears a session ``ttl`` seconds after its last request *began*, even during a call, and
  gives the next chunk to another processor. Therefore ``ttl`` is long (checked), engines are warm
  before the port opens, and the YAML files name both languages, so that a cleared processor keeps
  its direction.
* A client that finds no free processor, or whose chunk fails, gets no answer. Therefore there are
  spare processors, and everything that can fail is checked before the port opens.
* It passes read-only samples and calls from a new thread for every request: the agent copies
  and locks.
"""

import http.client
import json
import os
import shutil
import signal
import socket
import sys
from pathlib import Path

from alignatt_agent.cascade.runtime import Runtime
from alignatt_agent.config.agent_config import ConfigError, load_config
from alignatt_agent.config.checkpoints import CheckpointError
from alignatt_agent.config.machine import installed
from alignatt_agent.submission.bundle import SERVER_MODULE, read_server
from alignatt_agent.types import AlignAttError

PROBE = "health"
"""ID of a session that does not exist: clearing it answers 204 and changes nothing."""


class UnhealthyError(AlignAttError, RuntimeError):
    """The server does not answer, or another server does."""

    exit_status = 1


def server_command(root: Path, system: str | None) -> list[str]:
    """Check everything but the models; return the command of the official server."""
    folder = root / "systems"
    known = sorted(
        str(path.relative_to(folder).with_suffix("")) for path in folder.glob("*/*.yaml")
    )
    if system not in known:
        asked = f"there is no system named {system!r}" if system else "no system is named"
        raise ConfigError(f"{asked}; {folder} has: {', '.join(known) or 'none'}")
    agent = folder / f"{system}.yaml"
    config = load_config(str(agent))
    settings = root / "server.yaml"
    options = read_server(settings)
    try:
        Runtime().resolve(config)
    except CheckpointError as error:
        raise CheckpointError(
            f"{error}\nids of the hub are looked up in HF_HOME="
            f"{os.environ.get('HF_HOME', '~/.cache/huggingface')}, relative paths in {Path.cwd()}: "
            f"fetch the weights with fetch_weights.sh and mount them, -v FOLDER:/weights:ro, or "
            f"build the image with --build-arg WEIGHTS=baked"
        ) from None
    if installed("vllm") and shutil.which("nvidia-smi") is None:
        raise ConfigError(
            "vLLM with CUDA is installed but no NVIDIA driver is visible: start the container with "
            "--gpus device=0, or build the image with --build-arg EXTRA=cpu"
        )
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


def _check_port(hostname: str, port: int, settings: Path) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((hostname, port))
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {hostname}:{port} ({error.strerror}): stop the program that "
                f"uses the port, or change {settings}"
            ) from None


def check_health(port: int) -> None:
    """Check that the server of this machine answers, without occupying a processor.

    Its port opens when the engines are loaded. The server has no health route. Any other request
    for a new session would occupy a processor until the ``ttl`` is over.
    """
    # http.client, unlike urllib, ignores the proxies of the environment.
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5.0)
    try:
        body = json.dumps({"session_id": PROBE})
        connection.request("POST", "/clear", body, {"Content-Type": "application/json"})
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        raise UnhealthyError(
            f"no answer from 127.0.0.1:{port} ({type(error).__name__}: {error}); engines load for "
            f"minutes, see the container's log"
        ) from None
    finally:
        connection.close()
    if status != http.client.NO_CONTENT:
        raise UnhealthyError(
            f"127.0.0.1:{port} answered {status}, expected 204: another server may use the port"
        )
