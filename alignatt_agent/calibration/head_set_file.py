"""Writes calibrated heads as a file that ``alignatt_agent.config.head_sets`` reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from alignatt_agent.calibration.head_scores import Outcome, RowScores
from alignatt_agent.calibration.translation_score import Row
from alignatt_agent.evaluation.statistics import LEVEL, RESAMPLES

PROMPT_LAYOUT = "alignatt_agent.translation.prompt"


def head_set(
    outcome: Outcome,
    row: Row,
    *,
    model: str,
    revision: str | None,
    direction: str,
    source_of_alignments: str,
    top_k: int,
    provenance: dict[str, Any],
) -> dict[str, Any]:
    """Build the content of a head-set file.

    Args:
        outcome: what calibration found.
        row: the convention that the set is for.
        model: id or path under which configurations name the model.
        revision: commit of a hub id.
        direction: e.g. ``"en-de"``.
        source_of_alignments: the word aligner, for readers.
        top_k: number of heads in the set.
        provenance: tool, engine, data and what was left out.
    """
    chosen = outcome.rows[row]
    layers, heads = chosen.matrix.shape
    pairs, tokens = outcome.calibration
    return {
        "model": model,
        "revision": revision,
        "direction": direction,
        "prompt_layout": PROMPT_LAYOUT,
        "source_of_alignments": source_of_alignments,
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
                "by_k": _rounded(found.held_out.by_k),
                "by_k_bounds": _rounded(found.held_out.by_k_bounds),
                "ts_matrix": _rounded(found.matrix),
            }
            for name, found in outcome.rows.items()
        },
        "provenance": provenance,
    }


def write(path: Path, content: dict[str, Any]) -> None:
    """Write a head set, numbers of a row on one line, in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".json.new")
    fresh.write_text(_render(content, 0) + "\n", encoding="utf-8")
    fresh.replace(path)


def _scores(found: RowScores, top_k: int) -> dict[str, Any]:
    held_out = found.held_out
    return {
        "top_k": top_k,
        "head_set": _means(held_out.head_set),
        "all_heads": _means(held_out.all_heads),
        "gain_micro": held_out.gain.as_json(),
    }


def _means(pair: Any) -> dict[str, Any]:
    return {"micro": pair[0].as_json(), "macro": pair[1].as_json()}


def _rounded(array: npt.NDArray[np.float64]) -> Any:
    return np.round(array, 4).tolist()


def _render(value: Any, depth: int) -> str:
    """JSON with one line for every innermost list or object."""
    if isinstance(value, dict):
        items = [f"{json.dumps(k)}: {_render(v, depth + 1)}" for k, v in value.items()]
        brackets = "{}"
    elif isinstance(value, list):
        items, brackets = [_render(item, depth + 1) for item in value], "[]"
    else:
        return json.dumps(value, ensure_ascii=False)
    inner = value.values() if isinstance(value, dict) else value
    if not any(isinstance(item, dict | list) for item in inner):
        return brackets[0] + ", ".join(items) + brackets[1]
    pad = "  " * (depth + 1)
    return f"{brackets[0]}\n{pad}" + f",\n{pad}".join(items) + "\n" + "  " * depth + brackets[1]
