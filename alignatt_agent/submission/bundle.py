"""A bundle: where things are in it, what it says of itself, its dev set and its checksums.

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
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field, PlainSerializer, ValidationError
from tqdm import tqdm

from alignatt_agent.evaluation.run_files import InFolder, RunFiles
from alignatt_agent.types import AlignAttError

RUN_FILES = (
    "agent.yaml",
    "metrics.jsonl",
    "scores.json",
    "scores.tsv",
    "evaluation_report.txt",
    "instances.resegmented.jsonl",
)
"""What a run of ``simulstream-eval`` leaves per target and a bundle needs."""

SYSTEM_FILES = (*RUN_FILES, "proxy.yaml", "evaluation.yaml", "README.md")
"""Every file of a submitted system."""


class SubmissionError(AlignAttError, ValueError):
    """A bundle or its image cannot be made or read; the message has the fix."""


@dataclass(frozen=True, slots=True)
class SystemName:
    """One submitted system.

    Attributes:
        regime: ``"low"`` or ``"high"``.
        source: language code of the speech.
        target: language code of the translation.
    """

    regime: str
    source: str
    target: str

    @property
    def direction(self) -> str:
        """E.g. ``"en-de"``."""
        return f"{self.source}-{self.target}"

    def __str__(self) -> str:
        return f"{self.regime}/{self.direction}"

    @classmethod
    def parse(cls, text: str) -> SystemName:
        """Read ``"low/en-de"``.

        Raises:
            ValueError: it has another form.
        """
        match = re.fullmatch(r"(\w+)/(\w+)-([\w-]+)", text)
        if match is None:
            raise ValueError(f"{text!r} is not REGIME/SOURCE-TARGET such as low/en-de")
        return cls(*match.groups())


class SystemFiles(RunFiles):
    """Files of one submitted system: those of its run, and what it takes to repeat it.

    Attributes:
        proxy: speech processor YAML of the organisers' ``simulstream_inference``.
        evaluation: YAML for the scorers.
        readme: how to run and score this system.
    """

    proxy = InFolder("proxy.yaml")
    evaluation = InFolder("evaluation.yaml")
    readme = InFolder("README.md")


class Bundle:
    """Files of a bundle.

    Attributes:
        root: its folder.
        facts: what is submitted, for programs.
        sums: checksums in the format of ``sha256sum``.
        readme: the first thing to read.
        devset: segmentation and references that the scores were computed with.
        image: build context of the Docker image.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.facts = root / "submission.json"
        self.sums = root / "SHA256SUMS"
        self.readme = root / "README.md"
        self.devset = root / "devset"
        self.image = root / "image"

    def system(self, name: SystemName) -> SystemFiles:
        """Files of one system."""
        return SystemFiles(self.root / "systems" / name.regime / name.direction)

    def image_agent(self, name: SystemName) -> Path:
        """The speech processor YAML that the image serves for one system."""
        return self.image / "systems" / name.regime / f"{name.direction}.yaml"

    def where(self, path: Path) -> str:
        """Name a file for messages and checksums, relative to the bundle."""
        return path.relative_to(self.root).as_posix()


class DevSetFacts(BaseModel, extra="forbid", frozen=True):
    """The dev set of the logs.

    Attributes:
        segments: number of segments.
        talks: length in seconds of every recording, by the stem of its file.
    """

    segments: int = Field(gt=0)
    talks: dict[str, float] = Field(min_length=1)


_Name = Annotated[
    SystemName,
    BeforeValidator(lambda name: SystemName.parse(name) if isinstance(name, str) else name),
    PlainSerializer(str),
]


class Facts(BaseModel, extra="forbid", frozen=True):
    """Content of ``submission.json``.

    Attributes:
        format: version of this layout.
        team: who submits.
        contact: whom to write to.
        systems: their names; in the file such as ``"low/en-de"``.
        configs: configuration each system was built from, by the name of the system.
        devset: the dev set.
    """

    format: Literal[1] = 1
    team: str
    contact: str
    systems: list[_Name] = Field(min_length=1)
    configs: dict[str, str] = Field(default_factory=dict)
    devset: DevSetFacts


def read_facts(bundle: Bundle) -> Facts:
    """Read ``submission.json``.

    Raises:
        SubmissionError: it is not there or not valid: the folder is not a bundle.
    """
    try:
        return Facts.model_validate_json(bundle.facts.read_bytes())
    except FileNotFoundError:
        raise SubmissionError(
            f"{bundle.facts} does not exist: {bundle.root} is not a bundle of "
            f"`alignatt submission build`"
        ) from None
    except ValidationError as error:
        raise SubmissionError(f"{bundle.facts} is not valid: {error}") from None


def checksums(bundle: Bundle, progress: bool = False) -> dict[str, str]:
    """Return the SHA-256 of every file but ``SHA256SUMS`` itself, by its path in the bundle."""
    files = sorted(p for p in bundle.root.rglob("*") if p.is_file() and p != bundle.sums)
    found: dict[str, str] = {}
    for path in tqdm(files, "checksums", disable=not progress, leave=False):
        with path.open("rb") as stream:
            found[bundle.where(path)] = hashlib.file_digest(stream, "sha256").hexdigest()
    return found


def write_checksums(bundle: Bundle, progress: bool = False) -> int:
    """Write the checksums as ``sha256sum -c`` reads them; returns how many there are."""
    found = checksums(bundle, progress)
    lines = [f"{digest}  {name}\n" for name, digest in found.items()]
    bundle.sums.write_text("".join(lines), encoding="utf-8")
    return len(lines)
