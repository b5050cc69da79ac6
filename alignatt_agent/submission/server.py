"""Entry point of the image: check the system, then run Simulstream's unmodified HTTP server.

Three properties of the server require precautions:

* It clears a session ``ttl`` seconds after the *start* of its last request, even during a call, and
  passes the next chunk to another processor. Therefore ``ttl`` must be long, and engines are warmed
  up before the port opens. The YAML files set both languages, so that a cleared processor keeps its
  direction.
* A client gets no response if no processor is free or a chunk fails. Therefore the server has spare
  processors, and all possible causes of failure are checked before the port opens.
* It passes read-only samples, and calls the agent from a new thread for every request. Therefore
  the agent copies samples and uses a lock.
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
from alignatt_agent.machine.packages import installed
from alignatt_agent.submission.bundle import SERVER_MODULE, read_server, unserved_contexts
from alignatt_agent.types import AlignAttError

PROBE = "health"
"""ID of a session that does not exist: clearing it returns 204 and has no effect."""


class UnhealthyError(AlignAttError, RuntimeError):
    """The server does not answer, or another server uses its port."""

    exit_status = 1


def server_command(root: Path, system: str | None) -> list[str]:
    """Check everything except the models; return the command that runs the official server."""
    folder = root / "systems"
    files = folder.glob("*/*.yaml")
    systems = sorted(str(file.relative_to(folder).with_suffix("")) for file in files)
    if system not in systems:
        reason = "no system was specified"
        if system:
            reason = f"there is no system {system!r}"
        raise ConfigError(f"{reason}; {folder} contains {', '.join(systems) or 'none'}")
    agent = folder / f"{system}.yaml"
    config = load_config(str(agent))
    if problem := unserved_contexts(config):
        raise ConfigError(f"{agent}: {problem}; set speech.context to one list for all talks or []")
    settings = root / "server.yaml"
    options = read_server(settings)
    try:
        Runtime().resolve(config)
    except CheckpointError as error:
        raise CheckpointError(
            f"{error}\nhub IDs are looked up in HF_HOME="
            f"{os.environ.get('HF_HOME', '~/.cache/huggingface')}, relative paths in {Path.cwd()}; "
            f"fetch the weights with fetch_weights.sh and mount them (-v FOLDER:/weights:ro), or "
            f"build the image with --build-arg WEIGHTS=baked"
        ) from None
    # Docker mounts nvidia-smi into a container together with the driver.
    if installed("vllm") and shutil.which("nvidia-smi") is None:
        raise ConfigError(
            "vLLM with CUDA is installed, but no NVIDIA driver is visible: start the container "
            "with --gpus device=0, or build the image with --build-arg EXTRA=cpu"
        )
    _check_port(options["hostname"], options["port"], settings)
    command = [sys.executable, "-m", SERVER_MODULE]
    command += ["--server-config", str(settings)]
    command += ["--speech-processor-config", str(agent)]
    return command


def become(command: list[str]) -> None:
    """Replace this process with ``command``, so that signals reach the server."""
    sys.stdout.flush()
    sys.stderr.flush()
    # Background commands of a shell ignore SIGINT, and exec would not change this.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.execv(command[0], command)


def _check_port(hostname: str, port: int, settings: Path) -> None:
    with socket.socket() as probe:
        # Connections of an earlier server may still be in the state TIME_WAIT.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((hostname, port))
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {hostname}:{port} ({error.strerror}): stop the program that "
                f"uses the port, or change the port in {settings}"
            ) from None


def check_health(port: int) -> None:
    """Check that the server on this machine answers, without occupying a processor.

    The port opens when the engines are loaded. The server has no health route, so the check clears
    a session that does not exist. Any other request for a new session would occupy a processor
    until ``ttl`` expires.
    """
    # Unlike urllib, http.client ignores the proxies in the environment.
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5.0)
    try:
        body = json.dumps({"session_id": PROBE})
        connection.request("POST", "/clear", body, {"Content-Type": "application/json"})
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        raise UnhealthyError(
            f"no answer from 127.0.0.1:{port} ({type(error).__name__}: {error}); loading the "
            f"engines takes minutes: read the container's log"
        ) from None
    finally:
        connection.close()
    if status != http.client.NO_CONTENT:
        raise UnhealthyError(
            f"127.0.0.1:{port} answered {status}, expected 204: another server may use the port"
        )
