"""Calibrated head sets: which attention heads follow the source, for one model and direction."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alignatt_agent.config.resources import find_resource
from alignatt_agent.types import AlignAttError
from alignatt_agent.types.engines import Row

ANY = "*"
"""Key for every target language without its own head set."""


class HeadSetError(AlignAttError, ValueError):
    """A head set is missing, malformed, or does not belong to the model and direction in use."""


@dataclass(frozen=True, slots=True)
class HeadSet:
    """Attention heads of one model, ordered by falling Translation Score.

    Attributes:
        name: file name without its suffix.
        model: model the heads were calibrated on, as ``models.translation.path`` names it.
        revision: revision of that model; ``None`` for embedded checkpoints.
        direction: e.g. ``"en-de"``, or ``"en-*"`` of a set for any target.
        row: the query at which the scores were measured.
        heads: ``(layer, head)`` pairs, best first.
        ts: Translation Score of each head.
        num_layers: decoder layers of the model.
        num_heads: attention heads per layer.
        provisional: whether the scores were measured under another prompt or for other targets.
        prompt_sha256: hash of the prompt's wording that they were measured under, see
            ``PromptConfig.digest``; ``None`` where that is not known.
    """

    name: str
    model: str
    revision: str | None
    direction: str
    row: Row
    heads: tuple[tuple[int, int], ...]
    ts: tuple[float, ...]
    num_layers: int
    num_heads: int
    provisional: bool = False
    prompt_sha256: str | None = None

    def top(self, k: int) -> tuple[tuple[int, int], ...]:
        """Return the ``k`` best heads; a set with fewer heads is refused."""
        if not 1 <= k <= len(self.heads):
            raise HeadSetError(
                f"head set {self.name} has {len(self.heads)} heads, policy.top_k is {k}"
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
        """Refuse another model, revision, shape or direction than the calibrated one.

        ``None`` is a shape before the model is loaded, or the revision of a local directory.
        """
        # A local copy keeps the last part of its id: /data/gemma-4-E4B-it is google/gemma-4-E4B-it.
        same_model = Path(model).name.lower() == Path(self.model).name.lower()
        differences = [
            ("model", self.model, model, same_model),
            ("revision", self.revision, revision, None in (self.revision, revision)),
            ("direction", self.direction, direction, self.direction == for_any(direction)),
            ("number of layers", self.num_layers, num_layers, num_layers is None),
            ("number of heads", self.num_heads, num_heads, num_heads is None),
        ]
        for what, expected, got, accepted in differences:
            if not accepted and expected != got:
                raise HeadSetError(
                    f"head set {self.name} was calibrated for {what} {expected}, not for {got}; "
                    f"calibrate the heads of {model} for {direction}, or name another file under "
                    f"head_sets in the configuration"
                )


def for_any(direction: str) -> str:
    """Return the direction of a head set that serves any target: ``"en-*"`` for ``"en-de"``."""
    return f"{direction.partition('-')[0]}-{ANY}"


def load_head_set(name: str) -> HeadSet:
    """Load ``head_sets/NAME.json`` or a JSON file given by its path."""
    try:
        path = find_resource("head_sets", name, (".json",))
        head_set = _parse(path.stem, json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError as error:
        raise HeadSetError(str(error)) from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise HeadSetError(f"{path} is not JSON: {error}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise HeadSetError(f"{path} is malformed: {type(error).__name__} {error}") from None
    for layer, head in head_set.heads:
        if not (0 <= layer < head_set.num_layers and 0 <= head < head_set.num_heads):
            raise HeadSetError(
                f"{path}: head {layer},{head} does not exist in a model of "
                f"{head_set.num_layers} layers x {head_set.num_heads} heads"
            )
    return head_set


def _parse(name: str, raw: dict[str, Any]) -> HeadSet:
    row = raw["row"]
    if row not in ("predicting", "emitted"):
        raise ValueError(f"row must be 'predicting' or 'emitted', got {row!r}")
    heads = sorted(raw["heads"], key=lambda item: -float(item["ts"]))
    if not heads:
        raise ValueError("it has no heads")
    pairs = tuple((int(item["layer"]), int(item["head"])) for item in heads)
    if len(set(pairs)) != len(pairs):
        raise ValueError("a head is listed twice")
    return HeadSet(
        name=name,
        model=str(raw["model"]),
        revision=raw.get("revision"),
        direction=str(raw["direction"]),
        row=row,
        heads=pairs,
        ts=tuple(float(item["ts"]) for item in heads),
        num_layers=int(raw.get("num_layers") or len(raw["ts_matrix"])),
        num_heads=int(raw.get("num_heads") or len(raw["ts_matrix"][0])),
        provisional=bool(raw.get("provisional", False)),
        prompt_sha256=raw.get("prompt_sha256"),
    )
