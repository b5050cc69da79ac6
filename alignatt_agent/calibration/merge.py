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
    prompts: set[str | None] = set()
    for head_set in sets:
        _refuse_difference(first, head_set)
        prompts.add(head_set.prompt_sha256)
    means = _mean_scores(sets)
    # Heads with the same mean keep the order of the model.
    ranking = sorted(means, key=lambda head: (-means[head], head))
    chosen = ranking[:keep]
    heads: list[dict[str, Any]] = []
    for layer, head in chosen:
        score = round(means[layer, head], 4)
        heads.append({"layer": layer, "head": head, "ts": score})
    # Scores of different prompts have no common digest.
    prompt = prompts.pop() if len(prompts) == 1 else None
    names = ", ".join(head_set.name for head_set in sets)
    content = {
        "model": first.model,
        "revision": first.revision,
        "direction": for_any(first.direction),
        "provisional": True,
        "note": f"merged by mean Translation Score from {names}",
        "prompt_sha256": prompt,
        "row": first.row,
        "num_layers": first.num_layers,
        "num_heads": first.num_heads,
        "heads": heads,
    }
    return content, chosen


def losses(
    merged: Sequence[Head], judged: Sequence[HeadSet]
) -> list[tuple[str, float, float, str]]:
    """Compare the merged heads with the same number of each direction's own heads, by mean score.

    A merged head without a score in a direction counts as 0; the last column marks such directions.
    """
    rows: list[tuple[str, float, float, str]] = []
    for head_set in judged:
        best = mean(head_set, head_set.heads[: len(merged)])
        merged_mean = mean(head_set, merged)
        # A file without a score matrix contains the scores of its own heads only.
        remark = ""
        if not set(merged) <= head_set.scores.keys():
            remark = "lower bound: scores are missing"
        rows.append((head_set.direction, best, merged_mean, remark))
    return rows


def _refuse_difference(first: HeadSet, second: HeadSet) -> None:
    """Reject head sets of different models, rows or source languages."""
    for field in ("model", "revision", "row", "num_layers", "num_heads"):
        value = getattr(first, field)
        second_value = getattr(second, field)
        if value != second_value:
            raise HeadSetError(
                f"only head sets with the same {field} can be merged: {first.name} has {value}, "
                f"{second.name} has {second_value}"
            )
    if for_any(first.direction) != for_any(second.direction):
        raise HeadSetError(f"{first.name} and {second.name} have different source languages")


def _mean_scores(sets: Sequence[HeadSet]) -> dict[Head, float]:
    """Return the mean Translation Score of every head, with 0 for a set without its score."""
    heads: set[Head] = set()
    for head_set in sets:
        heads.update(head_set.scores)
    means: dict[Head, float] = {}
    for head in heads:
        scores = [head_set.scores.get(head, 0.0) for head_set in sets]
        means[head] = fmean(scores)
    return means
