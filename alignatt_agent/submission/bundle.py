"""Define the layout, facts, YAML files and checksums of a bundle.

::

    README.md, submission.json, SHA256SUMS
    devset/                     segmentation and references of the dev set, no audio
    image/                      build context of the Docker image
    systems/REGIME/DIRECTION/   one submitted system: settings, dev log, scores, README
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, Field, ValidationError
from tqdm import tqdm

from alignatt_agent.config.agent_config import AgentConfig
from alignatt_agent.config.errors import ConfigError, explain_all
from alignatt_agent.config.yaml_text import read_yaml
from alignatt_agent.evaluation.latency import REGIMES
from alignatt_agent.evaluation.run_files import RunFiles
from alignatt_agent.evaluation.score import scorer_settings
from alignatt_agent.types import AlignAttError

RUN_FILES = (
    "agent.yaml",
    "metrics.jsonl",
    "scores.json",
    "scores.tsv",
    "evaluation_report.txt",
    "instances.resegmented.jsonl",
)
"""Files that a bundle needs from each target of a ``simulstream-eval`` run."""

PORT = 8080
"""Port in ``templates/server.yaml``."""

PROXY_CLASS = (
    "simulstream.server.speech_processors.remote.http_proxy_speech_processor"
    ".HttpProxySpeechProcessor"
)
SERVER_MODULE = "simulstream.server.speech_processors.remote.http_speech_processor_server"

MIN_TTL_S = 600
"""Minimum ``ttl`` in seconds. The server clears a session ``ttl`` seconds after its last request
*began*, even during a call, and continues with an empty session. Chunks must take far less time."""

SYSTEM_FILES = (*RUN_FILES, "proxy.yaml", "evaluation.yaml", "README.md")
"""All files of a submitted system."""


class SubmissionError(AlignAttError, ValueError):
    """A bundle or its image cannot be built or read; the message contains the fix."""


@dataclass(frozen=True, slots=True)
class SystemName:
    """One submitted system, such as ``low/en-de``."""

    regime: str
    source: str
    target: str

    @property
    def direction(self) -> str:
        """Return the direction, e.g. ``"en-de"``."""
        return f"{self.source}-{self.target}"

    def __str__(self) -> str:
        return f"{self.regime}/{self.direction}"

    @classmethod
    def parse(cls, text: str) -> SystemName:
        """Parse a name such as ``"low/en-de"``."""
        # The code of a target may contain a hyphen: low/en-zh-Hant.
        return cls(*re.split("[/-]", text, maxsplit=2))


class SystemFiles(RunFiles):
    """Files of one submitted system: the files of the run, and the files needed to repeat it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.proxy = folder / "proxy.yaml"
        self.evaluation = folder / "evaluation.yaml"
        self.readme = folder / "README.md"


class Bundle:
    """Paths of the files in a bundle."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.facts = root / "submission.json"
        self.sums = root / "SHA256SUMS"
        self.readme = root / "README.md"
        self.devset = root / "devset"
        self.image = root / "image"

    def system(self, name: SystemName) -> SystemFiles:
        """Return the files of one system."""
        return SystemFiles(self.root / "systems" / name.regime / name.direction)

    def image_agent(self, name: SystemName) -> Path:
        """Return the path of the speech processor's YAML file for one system in the image."""
        return self.image / "systems" / name.regime / f"{name.direction}.yaml"

    def where(self, path: Path) -> str:
        """Return the path of a file relative to the bundle, for messages and checksums."""
        return path.relative_to(self.root).as_posix()


_NAME = rf"^({'|'.join(REGIMES)})/\w+-[\w-]+$"
"""Pattern of system names such as ``low/en-de``."""


class Facts(BaseModel, extra="forbid", frozen=True):
    """Content of ``submission.json``; ``talks`` maps recordings' stems to seconds of audio."""

    format: Literal[1] = 1
    team: str
    contact: str
    systems: list[Annotated[str, Field(pattern=_NAME)]] = Field(min_length=1)
    talks: dict[str, float] = Field(min_length=1)


def read_facts(bundle: Bundle) -> Facts:
    """Read ``submission.json``."""
    try:
        return Facts.model_validate_json(bundle.facts.read_bytes())
    except FileNotFoundError:
        raise SubmissionError(
            f"{bundle.facts} does not exist: {bundle.root} was not built by "
            f"`alignatt submission build`"
        ) from None
    except ValidationError as error:
        raise SubmissionError(f"{bundle.facts} is invalid: {error}") from None


def unserved_contexts(config: AgentConfig) -> str | None:
    """Describe the contexts that a run uses and the image cannot; ``None`` if there are none.

    Simulstream's HTTP protocol does not transmit the name of a recording, so every stream of the
    image gets the context of a talk without a name.
    """
    speech = config.speech
    unnamed = speech.context_of("")
    talks = [talk for talk, text in speech.contexts.items() if text != unnamed]
    if not talks:
        return None
    listing = ", ".join(talks[:3])
    if len(talks) > 3:
        listing += ", ..."
    return (
        f"speech.context has names and terms for {len(talks)} talk(s) ({listing}), but the HTTP "
        f"server of the image does not receive the name of a talk and would use none of them"
    )


def checksums(bundle: Bundle) -> dict[str, str]:
    """Return the SHA-256 hash of every file except ``SHA256SUMS``, by path in the bundle."""
    paths = bundle.root.rglob("*")
    files = sorted(path for path in paths if path.is_file() and path != bundle.sums)
    digests: dict[str, str] = {}
    for file in tqdm(files, "checksums", leave=False):
        with file.open("rb") as stream:
            digests[bundle.where(file)] = hashlib.file_digest(stream, "sha256").hexdigest()
    return digests


def write_checksums(bundle: Bundle) -> int:
    """Write the checksums in the format of ``sha256sum``; return the number of files."""
    lines = [f"{digest}  {name}\n" for name, digest in checksums(bundle).items()]
    bundle.sums.write_text("".join(lines), encoding="utf-8")
    return len(lines)


def proxy_yaml(target: str) -> str:
    """Return the configuration for the organizers' ``simulstream_inference``."""
    settings: dict[str, Any] = {"type": PROXY_CLASS, "hostname": "localhost", "port": PORT}
    settings.update(scorer_settings(target))
    note = "# For simulstream_inference: sends the audio to the container.\n"
    return note + yaml.safe_dump(settings, sort_keys=False)


def evaluation_yaml(target: str) -> str:
    """Return the keys that the scorers need and that Simulstream's proxy configuration lacks."""
    note = "# For the scorers (omnisteval --simulstream_config_file): how to join units.\n"
    return note + yaml.safe_dump(scorer_settings(target), sort_keys=False)


class _Server(BaseModel, strict=True):
    hostname: str
    port: int = Field(gt=0)
    pool_size: int = Field(gt=0)
    ttl: float = Field(ge=MIN_TTL_S)


def read_server(path: Path) -> dict[str, Any]:
    """Read a server configuration; reject a ``ttl`` that would clear active sessions."""
    try:
        raw = read_yaml(path)
        _Server.model_validate(raw)
    except ValidationError as error:
        problems = "; ".join(explain_all(_Server, error))
        raise ConfigError(f"{path} is not a valid server configuration: {problems}") from None
    return dict(raw)
