"""Load head sets: the attention heads that follow the source, for one model and direction."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError, model_validator

from alignatt_agent.config.errors import explain_all
from alignatt_agent.config.resources import find_resource, read_text
from alignatt_agent.types import AlignAttError
from alignatt_agent.types.engines import Row

ANY = "*"
"""Key for every target language without its own head set."""


class HeadSetError(AlignAttError, ValueError):
    """A head set is missing or malformed, or does not fit the model and direction in use."""


class HeadSet(BaseModel, frozen=True):
    """Attention heads of one model, in descending order of Translation Score.

    Attributes:
        name: file name without its suffix.
        model: the calibrated model, in the form of ``models.translation.path``.
        revision: revision of that model; ``None`` for embedded checkpoints.
        direction: e.g. ``"en-de"``; ``"en-*"`` applies to any target.
        row: the query whose attention rows were scored.
        heads: ``(layer, head)`` pairs, best first.
        ts: Translation Score of each head.
        num_layers: number of decoder layers of the model.
        num_heads: number of attention heads per layer.
        ts_matrix: Translation Score of every head, ``[layers][heads]``; ``None`` if unknown.
        provisional: whether the scores were measured with another prompt or for other targets.
        prompt_sha256: hash of the prompt with which the scores were measured (see
            ``PromptConfig.digest``); ``None`` if unknown.
    """

    name: str
    model: str
    revision: str | None = None
    direction: str
    row: Row
    heads: tuple[tuple[int, int], ...] = Field(min_length=1)
    ts: tuple[float, ...]
    num_layers: int
    num_heads: int
    ts_matrix: tuple[tuple[float | None, ...], ...] | None = None
    provisional: bool = False
    prompt_sha256: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _best_first(cls, raw: dict[str, Any]) -> dict[str, Any]:
        """Split the entries of a file into heads and scores, in descending order of score."""
        heads: list[tuple[int, int]] = []
        scores: list[float] = []
        for entry in sorted(raw["heads"], key=lambda entry: -entry["ts"]):
            heads.append((entry["layer"], entry["head"]))
            scores.append(entry["ts"])
        return raw | {"heads": heads, "ts": scores}

    @model_validator(mode="after")
    def _of_the_model(self) -> HeadSet:
        outside: list[tuple[int, int]] = []
        for layer, head in self.heads:
            if not (0 <= layer < self.num_layers and 0 <= head < self.num_heads):
                outside.append((layer, head))
        if outside:
            raise ValueError(
                f"heads {outside} do not exist: expected {self.num_layers} layers, "
                f"{self.num_heads} heads"
            )
        if len(set(self.heads)) < len(self.heads):
            raise ValueError("a head is listed twice")
        return self

    @property
    def scores(self) -> dict[tuple[int, int], float]:
        """Return the Translation Score of every scored head, by layer and head."""
        scores: dict[tuple[int, int], float] = {}
        for layer, row in enumerate(self.ts_matrix or ()):
            for head, score in enumerate(row):
                if score is not None:
                    scores[layer, head] = score
        # Files without a matrix have scores of the listed heads only.
        return scores or dict(zip(self.heads, self.ts, strict=True))

    def top(self, k: int) -> tuple[tuple[int, int], ...]:
        """Return the ``k`` best heads; reject a set with fewer heads."""
        if not 1 <= k <= len(self.heads):
            raise HeadSetError(
                f"head set {self.name} contains {len(self.heads)} heads, but policy.top_k is {k}"
            )
        return self.heads[:k]

    def check(
        self,
        model: str,
        num_layers: int | None,
        num_heads: int | None,
        direction: str,
        revision: str | None = None,
    ) -> None:
        """Reject a model, revision, shape or direction for which the set was not calibrated.

        ``None`` stands for an unknown shape or for the revision of a local directory.
        """
        # A local copy keeps the last part of its id: /data/gemma-4-E4B-it is google/gemma-4-E4B-it.
        same_model = Path(model).name.lower() == Path(self.model).name.lower()
        comparisons = [
            ("model", self.model, model, same_model),
            ("revision", self.revision, revision, None in (self.revision, revision)),
            ("direction", self.direction, direction, self.direction == for_any(direction)),
            ("number of layers", self.num_layers, num_layers, num_layers is None),
            ("number of heads", self.num_heads, num_heads, num_heads is None),
        ]
        for noun, calibrated, actual, accepted in comparisons:
            if not accepted and calibrated != actual:
                raise HeadSetError(
                    f"head set {self.name} was calibrated for {noun} {calibrated}, not for "
                    f"{actual}; calibrate the heads of {model} for {direction}, or set another "
                    f"file under head_sets in the configuration"
                )


def for_any(direction: str) -> str:
    """Return the direction of a head set for any target: ``"en-*"`` for ``"en-de"``."""
    return f"{direction.partition('-')[0]}-{ANY}"


def load_head_set(name: str) -> HeadSet:
    """Load ``head_sets/NAME.json`` or the JSON file at a path."""
    try:
        path = find_resource("head_sets", name, (".json",))
    except FileNotFoundError as error:
        raise HeadSetError(str(error)) from None
    try:
        raw = json.loads(read_text(path))
        return HeadSet.model_validate(raw | {"name": path.stem})
    except ValidationError as error:
        problems = "; ".join(explain_all(HeadSet, error))
        raise HeadSetError(f"{path} is malformed: {problems}") from None
    except (KeyError, TypeError, ValueError) as error:  # no JSON object, or heads without scores
        raise HeadSetError(f"{path} is malformed: {type(error).__name__} {error}") from None
