"""Merge head sets of several targets into one head set for any target.

Token-alignment heads are largely the same for all language pairs of a model. Therefore the heads
with the best scores over several targets are used provisionally for other targets.
"""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from alignatt_agent.calibration.row_reader import Head
from alignatt_agent.config.head_sets import HeadSet, HeadSetError, for_any


def mean(head_set: HeadSet, heads: Sequence[Head]) -> float:
    """Return the mean Translation Score of ``heads``, with 0 for a head without a score."""
    return fmean(head_set.scores.get(head, 0.0) for head in heads)


def merge(sets: Sequence[HeadSet], keep: int) -> tuple[dict[str, Any], list[Head]]:
    """Return the content of a head-set file for any target, and its heads, best first.

    Raises:
        HeadSetError: The sets differ in model, row or source language, or ``keep`` is below 1.
    """
    if keep < 1:
        raise HeadSetError(f"--keep {keep}: expected at least 1 head")
    first = sets[0]
    for other in sets:
        for what in ("model", "revision", "row", "num_layers", "num_heads"):
            ours, theirs = getattr(first, what), getattr(other, what)
            if ours != theirs:
                raise HeadSetError(
                    f"only head sets with the same {what} can be merged: {first.name} has {ours}, "
                    f"{other.name} has {theirs}"
                )
        if for_any(first.direction) != for_any(other.direction):
            raise HeadSetError(f"{first.name} and {other.name} have different source languages")
    prompts = {item.prompt_sha256 for item in sets}
    every = {head for item in sets for head in item.scores}
    means = {head: fmean(item.scores.get(head, 0.0) for item in sets) for head in every}
    chosen = sorted(every, key=lambda head: (-means[head], head))[:keep]
    content = {
        "model": first.model,
        "revision": first.revision,
        "direction": for_any(first.direction),
        "provisional": True,
        "note": f"merged by mean Translation Score from {', '.join(item.name for item in sets)}",
        "prompt_sha256": prompts.pop() if len(prompts) == 1 else None,
        "row": first.row,
        "num_layers": first.num_layers,
        "num_heads": first.num_heads,
        "heads": [{"layer": a, "head": b, "ts": round(means[a, b], 4)} for a, b in chosen],
    }
    return content, chosen


def losses(
    merged: Sequence[Head], judged: Sequence[HeadSet]
) -> list[tuple[str, float, float, str]]:
    """Compare the merged heads with the same number of each direction's own heads, by mean score.

    A merged head without a score in a direction counts as 0; the last column marks such directions.
    """
    return [
        (
            item.direction,
            mean(item, item.heads[: len(merged)]),
            mean(item, merged),
            "" if item.scores.keys() >= set(merged) else "lower bound: scores are missing",
        )
        for item in judged
    ]
