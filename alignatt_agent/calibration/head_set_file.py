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


def head_set(
    outcome: Outcome, row: Row, top_k: int, about: dict[str, Any], provenance: dict[str, Any]
) -> dict[str, Any]:
    """Return the content of a head-set file, with ``about`` first and ``provenance`` last."""
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
            {"layer": layer, "head": head, "ts": round(float(chosen.matrix[layer, head]), 4)}
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
                "ts_matrix": _rounded(found.matrix),
            }
            for name, found in outcome.rows.items()
        },
        "provenance": provenance,
    }


def write(path: Path, content: dict[str, Any]) -> None:
    """Write a head set at once, with each innermost list or object on one line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=2, ensure_ascii=False)
    # JSON strings contain no line breaks, so the joined text is equivalent JSON.
    flat = re.sub(
        r"([\[{])\n([^\[\]{}]*)\n *([\]}])",
        lambda found: found[1] + re.sub(r"\n *", " ", found[2].lstrip()) + found[3],
        text,
    )
    replace_text(path, flat + "\n")


def _scores(found: RowScores, top_k: int) -> dict[str, Any]:
    means = {name: getattr(found, name).as_json() for name in ("head_set", "all_heads", "gain")}
    return {"top_k": top_k, **means}


def _rounded(values: npt.ArrayLike) -> Any:
    array = np.asarray(values, np.float64)
    rounded = np.round(array, 4).astype(object)
    rounded[np.isnan(array)] = None  # layers without attention
    return rounded.tolist()
