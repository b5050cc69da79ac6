"""Where things are in a bundle.

::

    README.md, submission.json, SHA256SUMS
    devset/                     segmentation and references of the dev set, no audio
    image/                      build context of the Docker image
    systems/REGIME/DIRECTION/   one submitted system: settings, dev log, scores, README
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DIRECTION_SEPARATOR = "-"
RUN_FILES = (
    "agent.yaml",
    "metrics.jsonl",
    "scores.json",
    "scores.tsv",
    "evaluation_report.txt",
    "instances.resegmented.jsonl",
)
"""What a run of ``simulstream-eval`` leaves per target and a bundle needs."""


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
        return f"{self.source}{DIRECTION_SEPARATOR}{self.target}"

    def __str__(self) -> str:
        return f"{self.regime}/{self.direction}"

    @classmethod
    def parse(cls, text: str) -> SystemName:
        """Read ``"low/en-de"``.

        Raises:
            ValueError: it has another form.
        """
        regime, _, direction = text.partition("/")
        source, separator, target = direction.partition(DIRECTION_SEPARATOR)
        if not (regime and source and separator and target) or "/" in direction:
            raise ValueError(f"{text!r} is not REGIME/SOURCE-TARGET such as low/en-de")
        return cls(regime, source, target)


@dataclass(frozen=True, slots=True)
class SystemFiles:
    """Files of one submitted system."""

    folder: Path

    @property
    def agent(self) -> Path:
        """Speech processor YAML: the resolved configuration."""
        return self.folder / "agent.yaml"

    @property
    def proxy(self) -> Path:
        """Speech processor YAML of the organisers' ``simulstream_inference``."""
        return self.folder / "proxy.yaml"

    @property
    def evaluation(self) -> Path:
        """YAML for the scorers."""
        return self.folder / "evaluation.yaml"

    @property
    def metrics(self) -> Path:
        """Simulstream's log of the dev set."""
        return self.folder / "metrics.jsonl"

    @property
    def scores(self) -> Path:
        """Scores with their signature."""
        return self.folder / "scores.json"

    @property
    def readme(self) -> Path:
        """How to run and score this system."""
        return self.folder / "README.md"

    def required(self) -> list[Path]:
        """Every file that has to be there."""
        copied = [self.folder / name for name in RUN_FILES]
        return [*copied, self.proxy, self.evaluation, self.readme]


@dataclass(frozen=True, slots=True)
class Bundle:
    """Files of a bundle below its root."""

    root: Path

    @property
    def facts(self) -> Path:
        """What is submitted, for programs."""
        return self.root / "submission.json"

    @property
    def sums(self) -> Path:
        """Checksums in the format of ``sha256sum``."""
        return self.root / "SHA256SUMS"

    @property
    def readme(self) -> Path:
        """The first thing to read."""
        return self.root / "README.md"

    @property
    def devset(self) -> Path:
        """Segmentation and references that the scores were computed with."""
        return self.root / "devset"

    @property
    def image(self) -> Path:
        """Build context of the Docker image."""
        return self.root / "image"

    def system(self, name: SystemName) -> SystemFiles:
        """Files of one system."""
        return SystemFiles(self.root / "systems" / name.regime / name.direction)

    def image_agent(self, name: SystemName) -> Path:
        """The speech processor YAML that the image serves for one system."""
        return self.image / "systems" / name.regime / f"{name.direction}.yaml"
