"""Write head-set files, which ``alignatt_agent.config.head_sets`` reads."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from alignatt_agent.calibration.head_scores import Outcome, RowScores
from alignatt_agent.config.whole_files import replace_text
from alignatt_agent.evaluation.statistics import LEVEL, RESAMPLES
from alignatt_agent.types.engines import Row

_INNERMOST = re.compile(r"([\[{])\n([^\[\]{}]*)\n *([\]}])")
"""A list or object of indented JSON that contains no other list or object."""


def head_set(
    outcome: Outcome, row: Row, top_k: int, about: dict[str, Any], provenance: dict[str, Any]
) -> dict[str, Any]:
    """Return the content of a head-set file, with ``about`` first and ``provenance`` last."""
    chosen = outcome.rows[row]
    layers, heads = chosen.matrix.shape
    pairs, tokens = outcome.calibration
    held_out_pairs, held_out_tokens = outcome.held_out
    chosen_heads: list[dict[str, Any]] = []
    for layer, head in chosen.ranking[:top_k]:
        score = round(float(chosen.matrix[layer, head]), 4)
        chosen_heads.append({"layer": layer, "head": head, "ts": score})
    # The file documents both row conventions; ``row`` names the chosen one.
    rows: dict[Row, dict[str, Any]] = {}
    for name, scores in outcome.rows.items():
        rows[name] = {
            "heads": [list(head) for head in scores.ranking[:top_k]],
            **_scores(scores, top_k),
            "ts_matrix": _rounded(scores.matrix),
        }
    return {
        **about,
        "n_pairs": pairs,
        "n_aligned_tokens": tokens,
        "row": row,
        "num_layers": layers,
        "num_heads": heads,
        "heads": chosen_heads,
        "held_out": {
            "n_pairs": held_out_pairs,
            "n_aligned_tokens": held_out_tokens,
            "interval": f"bootstrap over pairs, {LEVEL} %, {RESAMPLES} resamples",
            **_scores(chosen, top_k),
        },
        "ts_matrix": _rounded(chosen.matrix),
        "rows": rows,
        "provenance": provenance,
    }


def write(path: Path, content: dict[str, Any]) -> None:
    """Write a head set at once, with each innermost list or object on one line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=2, ensure_ascii=False)
    # JSON strings contain no line breaks, so the joined text is equivalent JSON.
    replace_text(path, _INNERMOST.sub(_on_one_line, text) + "\n")


def _on_one_line(match: re.Match[str]) -> str:
    opening, content, closing = match.groups()
    return opening + re.sub(r"\n *", " ", content.lstrip()) + closing


def _scores(scores: RowScores, top_k: int) -> dict[str, Any]:
    return {
        "top_k": top_k,
        "head_set": scores.head_set.as_json(),
        "all_heads": scores.all_heads.as_json(),
        "gain": scores.gain.as_json(),
    }


def _rounded(values: npt.ArrayLike) -> Any:
    array = np.asarray(values, np.float64)
    rounded = np.round(array, 4).astype(object)
    rounded[np.isnan(array)] = None  # layers without attention
    return rounded.tolist()
