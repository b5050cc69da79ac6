"""One head set for several directions of a model, so that they share an engine's rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from alignatt_agent.config.head_sets import HeadSetError

SEPARATOR = "+"
_SHARED = ("model", "revision", "row", "num_layers", "num_heads", "prompt_layout")


def unite(contents: Sequence[dict[str, Any]], top_k: int) -> dict[str, Any]:
    """Unite head-set files: the ``top_k`` heads with the highest mean score over the directions.

    Args:
        contents: parsed files of one model and row convention, one a direction.
        top_k: heads to keep.

    Returns:
        The content of a file whose ``direction`` names them all, e.g. ``"en-de+en-it"``.

    Raises:
        HeadSetError: the files do not belong together.
    """
    if len(contents) < 2:
        raise HeadSetError(f"a union needs two head sets or more, got {len(contents)}")
    first = contents[0]
    for key in _SHARED:
        values = [content.get(key) for content in contents]
        if any(value != values[0] for value in values):
            raise HeadSetError(f"head sets with different {key} cannot be united: {values}")
    directions = [str(content["direction"]) for content in contents]
    if len(set(directions)) < len(directions):
        raise HeadSetError(f"a direction occurs twice: {directions}")
    tables = [_scores(content) for content in contents]
    heads = sorted({head for table in tables for head in table})
    # A head that a file without ts_matrix does not list scored less there than those it lists.
    mean = {h: sum(table.get(h, 0.0) for table in tables) / len(tables) for h in heads}
    best = sorted(heads, key=lambda head: -mean[head])[:top_k]
    return {
        **{key: first.get(key) for key in ("model", "revision")},
        "direction": SEPARATOR.join(directions),
        **({"provisional": True} if any(c.get("provisional") for c in contents) else {}),
        "prompt_layout": first.get("prompt_layout"),
        "source_of_alignments": "; ".join(
            dict.fromkeys(str(content.get("source_of_alignments")) for content in contents)
        ),
        "n_pairs": _sum(contents, "n_pairs"),
        "n_aligned_tokens": _sum(contents, "n_aligned_tokens"),
        **{key: first.get(key) for key in ("row", "num_layers", "num_heads")},
        "heads": [{"layer": a, "head": b, "ts": round(mean[a, b], 4)} for a, b in best],
        "by_direction": {
            direction: [round(table.get(head, 0.0), 4) for head in best]
            for direction, table in zip(directions, tables, strict=True)
        },
        "ts_matrix": None,
    }


def _scores(content: dict[str, Any]) -> dict[tuple[int, int], float]:
    matrix = content.get("ts_matrix")
    if matrix:
        return {(a, b): float(ts) for a, row in enumerate(matrix) for b, ts in enumerate(row)}
    return {(item["layer"], item["head"]): float(item["ts"]) for item in content["heads"]}


def _sum(contents: Sequence[dict[str, Any]], key: str) -> int | None:
    values = [content.get(key) for content in contents]
    known = [value for value in values if isinstance(value, int)]
    return sum(known) if len(known) == len(values) else None
