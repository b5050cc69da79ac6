"""Head-set files, as ``alignatt_agent.config.head_sets`` reads them: written, and united."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from alignatt_agent.calibration.head_scores import Outcome, RowScores
from alignatt_agent.calibration.translation_score import Row
from alignatt_agent.config.head_sets import HeadSetError
from alignatt_agent.config.resources import find_resource
from alignatt_agent.evaluation.statistics import LEVEL, RESAMPLES

_SHARED = ("model", "revision", "row", "num_layers", "num_heads", "prompt_layout")


def head_set(
    outcome: Outcome, row: Row, top_k: int, about: dict[str, Any], provenance: dict[str, Any]
) -> dict[str, Any]:
    """Build the content of a head-set file.

    Args:
        outcome: what calibration found.
        row: the convention that the set is for.
        top_k: number of heads in the set.
        about: the first entries: model as configurations name it, revision, direction and so on.
        provenance: tool, engine, data and what was left out.
    """
    chosen = outcome.rows[row]
    layers, heads = chosen.matrix.shape
    pairs, tokens = outcome.calibration
    return {
        **about,
        "n_pairs": pairs,
        "n_aligned_tokens": tokens,
        "row": row,
        "num_layers": layers,
        "num_heads": heads,
        "heads": [
            {"layer": layer, "head": head, "ts": round(chosen.ts((layer, head)), 4)}
            for layer, head in chosen.ranking[:top_k]
        ],
        "held_out": {
            "n_pairs": outcome.held_out[0],
            "n_aligned_tokens": outcome.held_out[1],
            "interval": f"bootstrap over pairs, {LEVEL} %, {RESAMPLES} resamples",
            **_scores(chosen, top_k),
        },
        "ts_matrix": _rounded(chosen.matrix),
        "rows": {
            name: {
                "heads": [list(head) for head in found.ranking[:top_k]],
                **_scores(found, top_k),
                "by_k": _rounded([item.value for item in found.by_k]),
                "by_k_bounds": _rounded([(item.low, item.high) for item in found.by_k]),
                "ts_matrix": _rounded(found.matrix),
            }
            for name, found in outcome.rows.items()
        },
        "provenance": provenance,
    }


def read(name: str) -> dict[str, Any]:
    """Return the content of ``head_sets/NAME.json`` or of a file given by its path.

    Raises:
        HeadSetError: there is none, or it is not JSON.
    """
    try:
        path = find_resource("head_sets", name, (".json",))
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError) as error:
        raise HeadSetError(f"{name}: {error}") from None
    return content


def write(path: Path, content: dict[str, Any]) -> None:
    """Write a head set, numbers of a row on one line, in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=2, ensure_ascii=False)
    # Line breaks are never inside a string, so whatever this joins stays the same JSON.
    flat = re.sub(
        r"([\[{])\n([^\[\]{}]*)\n *([\]}])",
        lambda found: found[1] + re.sub(r"\n *", " ", found[2].lstrip()) + found[3],
        text,
    )
    fresh = path.with_suffix(".json.new")
    fresh.write_text(flat + "\n", encoding="utf-8")
    fresh.replace(path)


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
    tables = [_scores_of(content) for content in contents]
    heads = sorted({head for table in tables for head in table})
    # A head that a file without ts_matrix does not list scored less there than those it lists.
    mean = {h: sum(table.get(h, 0.0) for table in tables) / len(tables) for h in heads}
    prompts = {content.get("prompt_sha256") for content in contents}
    best = sorted(heads, key=lambda head: -mean[head])[:top_k]
    return {
        **{key: first.get(key) for key in ("model", "revision")},
        "direction": "+".join(directions),
        **({"provisional": True} if any(c.get("provisional") for c in contents) else {}),
        "prompt_layout": first.get("prompt_layout"),
        "prompt_sha256": prompts.pop() if len(prompts) == 1 else None,
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


def _scores(found: RowScores, top_k: int) -> dict[str, Any]:
    means = {
        name: {"micro": micro.as_json(), "macro": macro.as_json()}
        for name, (micro, macro) in (("head_set", found.head_set), ("all_heads", found.all_heads))
    }
    return {"top_k": top_k, **means, "gain_micro": found.gain.as_json()}


def _rounded(array: npt.ArrayLike) -> Any:
    return np.round(np.asarray(array, np.float64), 4).tolist()


def _scores_of(content: dict[str, Any]) -> dict[tuple[int, int], float]:
    matrix = content.get("ts_matrix")
    if matrix:
        return {(a, b): float(ts) for a, row in enumerate(matrix) for b, ts in enumerate(row)}
    return {(item["layer"], item["head"]): float(item["ts"]) for item in content["heads"]}


def _sum(contents: Sequence[dict[str, Any]], key: str) -> int | None:
    values = [content.get(key) for content in contents]
    known = [value for value in values if isinstance(value, int)]
    return sum(known) if len(known) == len(values) else None
