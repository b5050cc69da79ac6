"""Whether hours of sound leave the live server as it was, and quiet where nobody speaks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from lab.bench.sound import QUIET, SPEECH

EDGE_S = 0.5
"""Word times err: what stands so near to speech counts as spoken there."""
MOST_GROWTH = 0.02
"""Share by which a process may grow once buffers are filled."""


def spoken_in(units: Sequence[tuple[str, float]], spans: Sequence[Any]) -> dict[str, list[str]]:
    """Sort units, text and middle of what they translate in seconds, by the kind of sound there."""
    speech = [(begin - EDGE_S, end + EDGE_S) for kind, begin, end in spans if kind in SPEECH]
    found: dict[str, list[str]] = defaultdict(list)
    for text, at in units:
        inside = next((kind for kind, begin, end in spans if begin <= at < end), "silence")
        near = any(begin <= at < end for begin, end in speech)
        found["speech" if near and inside not in SPEECH else inside].append(text)
    return dict(found)


def growth(rows: Sequence[dict[str, Any]], settle: float) -> dict[str, dict[str, float]]:
    """Return by how much each process outgrew what it took after ``settle`` minutes, as shares."""
    after = [row["memory_mib"] for row in rows if row["minute"] >= settle]
    kept = set.intersection(*(set(sizes) for sizes in after)) if after else set()
    found = {}
    for name in sorted(kept):
        sizes = [[size[name][kind] for size in after] for kind in ("rss", "uss")]
        # A step that hears half a minute takes tens of megabytes while it lasts: ``highest``.
        trend = max(later / first for first, later in map(_thirds, sizes))
        highest = max(max(series) / series[0] for series in sizes)
        found[name] = {"trend": round(trend - 1, 4), "highest": round(highest - 1, 4)}
    return found


def lag_growth(rows: Sequence[dict[str, Any]], settle: float) -> float:
    """Return by how many seconds the median lag grew from the first to the last third."""
    lags = [row["lag_median_s"] for row in rows if row["minute"] >= settle]
    first, later = _thirds(lags) if lags else (0.0, 0.0)
    return round(later - first, 3)


def _thirds(values: Sequence[float]) -> tuple[float, float]:
    """Return the medians of the first and of the last third."""
    third = max(1, len(values) // 3)
    return float(np.median(values[:third])), float(np.median(values[-third:]))


def problems(found: dict[str, Any]) -> list[str]:
    """Return what is not as it should be."""
    wrong = [
        f"{name} grew by {share['trend']:.1%}"
        for name, share in found["growth"].items()
        if share["trend"] > MOST_GROWTH
    ]
    if not found["growth"]:
        wrong.append("too short to see whether memory is flat")
    if found["lag_growth_s"] > found["chunk_ms"] / 1000:
        wrong.append(f"the lag grew by {found['lag_growth_s']} s")
    wrong += [f"said in {kind}: {found['said'][kind]}" for kind in QUIET if found["said"].get(kind)]
    if not found["said"].get("speech"):
        wrong.append("nothing was said at all")
    if found["viewer_saw"] != found["speaker_saw"] and not found["stopped"]:
        wrong.append(f"a viewer saw {found['viewer_saw']} of {found['speaker_saw']} messages")
    return wrong
