"""Whether hours of sound leave the live server as it was, and quiet where nobody speaks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from sound import QUIET, SPEECH

EDGE_S = 0.5
"""Word times err: what stands so near to speech counts as spoken there."""
MOST_GROWTH = 0.02
"""Share by which a process may grow once buffers are filled."""


def spoken_in(units: Sequence[tuple[str, float]], spans: Sequence[Any]) -> dict[str, list[str]]:
    """Sort units, text and middle of what they translate in seconds, by the kind of sound there.

    Args:
        units: what was said.
        spans: kind, begin and end of all parts, in seconds.
    """
    speech = [(begin - EDGE_S, end + EDGE_S) for kind, begin, end in spans if kind in SPEECH]
    found: dict[str, list[str]] = defaultdict(list)
    for text, at in units:
        inside = next((kind for kind, begin, end in spans if begin <= at < end), "silence")
        near = any(begin <= at < end for begin, end in speech)
        found["speech" if near and inside not in SPEECH else inside].append(text)
    return dict(found)


def growth(rows: Sequence[dict[str, Any]], settle: float) -> dict[str, float]:
    """Return by how much each process outgrew what it took after ``settle`` minutes, as a share."""
    after = [row["memory_mib"] for row in rows if row["minute"] >= settle]
    kept = set.intersection(*(set(sizes) for sizes in after)) if after else set()
    return {
        name: round(
            max(
                max(x[name][kind] for x in after) / after[0][name][kind] - 1
                for kind in ("rss", "uss")
            ),
            4,
        )
        for name in sorted(kept)
    }


def lag_growth(rows: Sequence[dict[str, Any]], settle: float) -> float:
    """Return by how many seconds the median lag of the last third after ``settle`` minutes grew."""
    lags = [row["lag_median_s"] for row in rows if row["minute"] >= settle]
    third = max(1, len(lags) // 3)
    return round(float(np.median(lags[-third:]) - np.median(lags[:third])), 3) if lags else 0.0


def problems(found: dict[str, Any]) -> list[str]:
    """Return what is not as it should be."""
    wrong = [
        f"{name} grew by {share:.1%}"
        for name, share in found["growth"].items()
        if share > MOST_GROWTH
    ]
    if not found["growth"]:
        wrong.append("too short to see whether memory is flat")
    if found["lag_growth_s"] > found["chunk_ms"] / 1000:
        wrong.append(f"the lag grew by {found['lag_growth_s']} s")
    wrong += [f"said in {kind}: {found['said'][kind]}" for kind in QUIET if found["said"].get(kind)]
    if not found["said"].get("speech"):
        wrong.append("nothing was said at all")
    if found["viewer_saw"] != found["speaker_saw"]:
        wrong.append(f"a viewer saw {found['viewer_saw']} of {found['speaker_saw']} messages")
    return wrong
