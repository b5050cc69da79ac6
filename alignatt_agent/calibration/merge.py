"""Merges head sets of several targets into one for any target.

Token-alignment heads are largely the same for all language pairs of a model, so the heads that
score best over several targets serve the others provisionally.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from alignatt_agent.calibration.row_reader import Head
from alignatt_agent.config.head_sets import HeadSet, HeadSetError, for_any, load_head_set
from alignatt_agent.config.resources import find_resource


@dataclass(frozen=True, slots=True)
class Scored:
    """A head set with the Translation Score of every head; 0 where its file has no score."""

    head_set: HeadSet
    scores: dict[Head, float]

    def mean(self, heads: Sequence[Head]) -> float:
        """Return the mean Translation Score of ``heads`` in this direction."""
        return fmean(self.scores.get(head, 0.0) for head in heads)


def load_scored(name: str) -> Scored:
    """Load a head set with its matrix of scores, where it has one."""
    head_set = load_head_set(name)
    raw = json.loads(find_resource("head_sets", name, (".json",)).read_text(encoding="utf-8"))
    scores = {
        (layer, head): score
        for layer, row in enumerate(raw.get("ts_matrix") or [])
        for head, score in enumerate(row)
        if score is not None
    }
    return Scored(head_set, scores or dict(zip(head_set.heads, head_set.ts, strict=True)))


def merge(sets: Sequence[Scored], keep: int) -> tuple[dict[str, Any], list[Head]]:
    """Return the content of a head-set file for any target, and its heads, best first.

    Raises:
        HeadSetError: the sets differ in model, row or source language, or no head is kept.
    """
    if keep < 1:
        raise HeadSetError(f"--keep {keep}: expected at least 1 head")
    first = sets[0].head_set
    for other in (item.head_set for item in sets):
        for what in ("model", "revision", "row", "num_layers", "num_heads"):
            ours, theirs = getattr(first, what), getattr(other, what)
            if ours != theirs:
                raise HeadSetError(
                    f"only sets of the same {what} can be merged: {first.name} has {ours}, "
                    f"{other.name} {theirs}"
                )
        if for_any(first.direction) != for_any(other.direction):
            raise HeadSetError(f"{first.name} and {other.name} have different source languages")
    prompts = {item.head_set.prompt_sha256 for item in sets}
    every = {head for item in sets for head in item.scores}
    means = {head: fmean(item.scores.get(head, 0.0) for item in sets) for head in every}
    chosen = sorted(every, key=lambda head: (-means[head], head))[:keep]
    content = {
        "model": first.model,
        "revision": first.revision,
        "direction": for_any(first.direction),
        "provisional": True,
        "note": f"merged by mean Translation Score from {', '.join(s.head_set.name for s in sets)}",
        "prompt_sha256": prompts.pop() if len(prompts) == 1 else None,
        "row": first.row,
        "num_layers": first.num_layers,
        "num_heads": first.num_heads,
        "heads": [{"layer": a, "head": b, "ts": round(means[a, b], 4)} for a, b in chosen],
    }
    return content, chosen


def losses(merged: Sequence[Head], judged: Sequence[Scored]) -> list[tuple[str, float, float, str]]:
    """Compare the merged heads with equally many of each direction, by mean Translation Score.

    Merged heads without a score in a direction count as 0 there; the last column marks this.
    """
    return [
        (
            item.head_set.direction,
            item.mean(item.head_set.heads[: len(merged)]),
            item.mean(merged),
            "" if item.scores.keys() >= set(merged) else "at least: scores missing",
        )
        for item in judged
    ]
