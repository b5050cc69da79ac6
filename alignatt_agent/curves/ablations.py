"""The gate at the low operating point with one setting changed at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from alignatt_agent.config.agent_config import AgentConfig
from alignatt_agent.config.head_sets import HeadSet, load_head_set
from alignatt_agent.config.resources import find_resource
from alignatt_agent.curves.grid import PAPER_FILTERS, Point, Settings

CURVE = "ablation"


def ablations(base: AgentConfig, targets: Sequence[str], folder: Path) -> list[Point]:
    """Return every variant; the maintained value of a setting is the default itself.

    Head sets of all heads, and of the other row convention, are written to ``folder``. A
    convention that a head-set file holds no scores for is left out.

    Args:
        base: configuration of the low operating point.
        targets: target language codes.
        folder: where derived head sets go.
    """
    chosen = {code: load_head_set(base.head_sets[code]) for code in targets}
    points = [Point("default", CURVE, "maintained default")]
    for name, label, settings in [*_filters(base), *_heads(base, chosen, folder), *_speech(base)]:
        points.append(Point(name, CURVE, label, settings=settings))
    margin = 1
    for n in (1, 2, 3):
        if n != base.policy.n:
            label = "one draft is enough" if n == 1 else f"{n} drafts have to agree"
            points.append(Point(f"agree-{n}", CURVE, label, settings={"policy.n": n}))
    points.append(
        Point(
            "paper",
            CURVE,
            f"the paper's: z-score, median 7, margin {margin}, hold-back 0, one draft, chunk 850",
            settings={
                **PAPER_FILTERS,
                "chunk_ms": 850,
                "policy.n": 1,
                "policy.border_margin": margin,
                "speech.hold_back_ms": 0,
                "speech.stable_only": False,
            },
        )
    )
    return points


def _filters(base: AgentConfig) -> Iterator[tuple[str, str, Settings]]:
    for value, label in (("none", "raw rows"), ("zscore", "z-score")):
        if value != base.policy.normalise:
            yield f"normalise-{value}", label, {"policy.normalise": value}
    for width in (1, 3, 7):
        if width != base.policy.median_width:
            yield f"median-{width}", f"median width {width}", {"policy.median_width": width}
    if (base.policy.normalise, base.policy.median_width) != ("zscore", 7):
        yield "paper-filters", "z-score and median width 7", PAPER_FILTERS


def _heads(
    base: AgentConfig, chosen: dict[str, HeadSet], folder: Path
) -> Iterator[tuple[str, str, Settings]]:
    smallest = min(len(item.heads) for item in chosen.values())
    for k in (1, 4, 8):
        if k != base.policy.top_k and k <= smallest:
            yield f"top-{k}", f"top {k} heads", {"policy.top_k": k}
    files = {code: _matrices(base.head_sets[code]) for code in chosen}
    if all(item.row in files[code] for code, item in chosen.items()):
        heads = {
            code: derived(item, files[code][item.row], item.row) for code, item in chosen.items()
        }
        yield (
            "top-all",
            "all heads of the model",
            {
                "head_sets": {code: _write(item, folder, "all") for code, item in heads.items()},
                "policy.top_k": min(len(item.heads) for item in heads.values()),
            },
        )
    others = {code: _other(item.row) for code, item in chosen.items()}
    if all(others[code] in files[code] for code in chosen):
        heads = {
            code: derived(item, files[code][others[code]], others[code])
            for code, item in chosen.items()
        }
        names = {
            code: _write(replace(item, heads=item.top(base.policy.top_k)), folder, item.row)
            for code, item in heads.items()
        }
        yield "row", f"{'/'.join(sorted(set(others.values())))} row", {"head_sets": names}


def _speech(base: AgentConfig) -> Iterator[tuple[str, str, Settings]]:
    stable = not base.speech.stable_only
    label = "stable words only" if stable else "unstable words, too"
    yield "stable-only", label, {"speech.stable_only": stable}
    for hold in (0, 250, 500):
        if hold != base.speech.hold_back_ms:
            yield f"hold-back-{hold}", f"hold-back {hold} ms", {"speech.hold_back_ms": hold}


def derived(item: HeadSet, matrix: Sequence[Sequence[float]], row: Any) -> HeadSet:
    """Return all heads of the model by falling score in ``matrix``, ``[layers, heads]``."""
    scored = [
        (score, layer, head)
        for layer, heads in enumerate(matrix)
        for head, score in enumerate(heads)
    ]
    scored.sort(key=lambda entry: (-entry[0], entry[1:]))
    return replace(
        item,
        row=row,
        heads=tuple((layer, head) for _, layer, head in scored),
        ts=tuple(score for score, _, _ in scored),
    )


def _matrices(name: str) -> dict[str, list[list[float]]]:
    """Return the scores of every head by row convention, as far as the file holds them."""
    path = find_resource("head_sets", name, (".json",))
    raw = json.loads(path.read_text(encoding="utf-8"))
    found = {raw["row"]: raw["ts_matrix"]} if "ts_matrix" in raw else {}
    for row, scores in raw.get("rows", {}).items():
        if "ts_matrix" in scores:
            found[row] = scores["ts_matrix"]
    return found


def _other(row: str) -> str:
    return "emitted" if row == "predicting" else "predicting"


def _write(item: HeadSet, folder: Path, suffix: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{item.name}-{suffix}.json"
    content = {
        "model": item.model,
        "revision": item.revision,
        "direction": item.direction,
        "row": item.row,
        "num_layers": item.num_layers,
        "num_heads": item.num_heads,
        "provisional": item.provisional,
        "heads": [
            {"layer": layer, "head": head, "ts": ts}
            for (layer, head), ts in zip(item.heads, item.ts, strict=False)
        ],
    }
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)
