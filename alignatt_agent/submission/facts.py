"""``submission.json``: what is submitted, for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from alignatt_agent.submission.bundle import SystemName


class FactsError(ValueError):
    """``submission.json`` is missing or malformed: the folder is not a bundle."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DevSetFacts(_Strict):
    """The dev set of the logs.

    Attributes:
        segments: number of segments.
        talks: length in seconds of every recording, by the stem of its file.
    """

    segments: int = Field(gt=0)
    talks: dict[str, float] = Field(min_length=1)


class Facts(_Strict):
    """Content of ``submission.json``.

    Attributes:
        format: version of this layout.
        team: who submits.
        contact: whom to write to.
        systems: names such as ``"low/en-de"``.
        configs: configuration each system was built from, by the name of the system.
        devset: the dev set.
    """

    format: Literal[1] = 1
    team: str
    contact: str
    systems: list[str] = Field(min_length=1)
    configs: dict[str, str] = Field(default_factory=dict)
    devset: DevSetFacts

    def names(self) -> list[SystemName]:
        """Return the names of the systems.

        Raises:
            FactsError: one is not REGIME/DIRECTION.
        """
        try:
            return [SystemName.parse(name) for name in self.systems]
        except ValueError as error:
            raise FactsError(f"systems: {error}") from None


def write_facts(facts: Facts, path: Path) -> None:
    """Write ``submission.json``."""
    text = json.dumps(facts.model_dump(), indent=2, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def read_facts(path: Path) -> Facts:
    """Read ``submission.json``.

    Raises:
        FactsError: it is not there or not valid.
    """
    try:
        return Facts.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FactsError(
            f"{path} does not exist: {path.parent} is not a bundle of `alignatt-submission build`"
        ) from None
    except (ValidationError, UnicodeDecodeError) as error:
        raise FactsError(f"{path} is not valid: {error}") from None
