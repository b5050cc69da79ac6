"""YAML files of the HTTP route: proxy and scorers are written, the server's is checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from alignatt_agent.config.agent_config import ConfigError
from alignatt_agent.config.languages import language

PORT = 8080
"""What ``templates/server.yaml`` listens on."""

PROXY_CLASS = (
    "simulstream.server.speech_processors.remote.http_proxy_speech_processor"
    ".HttpProxySpeechProcessor"
)
SERVER_MODULE = "simulstream.server.speech_processors.remote.http_speech_processor_server"

MIN_TTL_S = 600
"""The server clears a session whose last request *started* this long ago, also in mid-call, and
goes on with an empty one. Nothing a chunk does may come near it."""


def proxy_yaml(target: str, hostname: str = "localhost", port: int = PORT) -> str:
    """Return the configuration of the organisers' ``simulstream_inference``.

    Args:
        target: target language code.
        hostname: where the server is.
        port: its port.
    """
    content = {"type": PROXY_CLASS, "hostname": hostname, "port": port, **scorer_keys(target)}
    return "# For simulstream_inference: sends the audio to the container.\n" + yaml.safe_dump(
        content, sort_keys=False
    )


def evaluation_yaml(target: str) -> str:
    """Return the configuration that the scorers read; Simulstream's own proxy YAML lacks it."""
    return (
        "# For the scorers (omnisteval --simulstream_config_file): how units are joined.\n"
        + yaml.safe_dump(scorer_keys(target), sort_keys=False)
    )


def scorer_keys(target: str) -> dict[str, str]:
    """Keys that decide how a log is scored."""
    return {"detokenizer_type": "simuleval", "latency_unit": language(target).latency_unit}


def read_server(path: Path) -> dict[str, Any]:
    """Read and check a server configuration.

    Raises:
        ConfigError: it would not serve, or it would clear sessions that are in use.
    """
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    problems = [] if isinstance(raw, dict) else [f"it is {type(raw).__name__}, expected keys"]
    expected: dict[str, Any] = {"hostname": str, "port": int, "pool_size": int, "ttl": (int, float)}
    for key, kind in expected.items() if not problems else ():
        if not isinstance(raw.get(key), kind) or isinstance(raw[key], bool):
            problems.append(f"{key} is {raw.get(key)!r}")
        elif key != "hostname" and raw[key] <= 0:
            problems.append(f"{key} is {raw[key]}, expected more than 0")
    if not problems and raw["ttl"] < MIN_TTL_S:
        problems.append(
            f"ttl is {raw['ttl']} s; set {MIN_TTL_S} or more: the server clears a session in "
            f"mid-stream when a chunk takes that long"
        )
    if problems:
        raise ConfigError(f"{path} is not a server configuration: " + "; ".join(problems))
    return dict(raw)
