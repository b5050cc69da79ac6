"""Compute when each cue of a recording begins, by dynamic programming over shifted starts."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple

from alignatt_agent.live.cues import GAP_S, SHORTEST_S, Layout, Said, text_of, width

SHIFTS_S = [tenth / 10 for tenth in range(-5, 21)]
"""Shifts of a cue's start that are tried to gain reading time: -0.5 s to 2 s."""

SHIFT_COST = 10
"""Seconds of shift that cost as much as one fast cue."""

FASTEST = 25 / 17
"""Maximum multiple of the reading speed; cues exceed it only if no shift prevents this."""

TOO_FAST_COST = 100
"""Cost of a cue, multiplied by its excess over ``FASTEST``."""

ROUNDING_S = 1e-6
"""Tolerance for rounding errors, in seconds."""


class _Best(NamedTuple):
    """The cheapest starts from a cue on: their cost, and the start of the next cue."""

    cost: float
    next_start: float


def cue_starts(groups: Sequence[Sequence[Said]], form: Layout) -> list[float]:
    """Return the cue starts with the fewest fast cues and, among those, the smallest shifts."""
    if not groups:
        return []
    # From the last cue backward: the best continuation of each start that is tried. After the last
    # cue, nothing limits the time.
    best: list[dict[float, _Best]] = []
    later = {inf: _Best(0.0, inf)}
    speech_starts = _speech_starts(groups)
    for units, speech_start in zip(groups[::-1], speech_starts[::-1], strict=True):
        reading_s = max(SHORTEST_S, width(text_of(units)) / form.speed)
        options = {}
        for shift_s in SHIFTS_S:
            start = max(0.0, speech_start + shift_s)
            following = _cheapest(start, reading_s, later)
            cost = following.cost + abs(start - speech_start) / SHIFT_COST
            options[start] = _Best(cost, following.next_start)
        best.append(options)
        later = options
    start = min(later, key=later.__getitem__)
    starts = []
    for options in reversed(best):
        starts.append(start)
        start = options[start].next_start
    return starts


def _speech_starts(groups: Sequence[Sequence[Said]]) -> list[float]:
    """Return the start of each cue's speech, delayed if the previous cue needs its minimum time."""
    starts: list[float] = []
    for units in groups:
        start = min([unit.spoken.start for unit in units])
        if starts:
            start = max(starts[-1] + SHORTEST_S + GAP_S, start)
        starts.append(start)
    return starts


def _cheapest(start: float, reading_s: float, later: Mapping[float, _Best]) -> _Best:
    """Return the start of the next cue with the smallest cost, and that cost."""
    options = []
    for next_start, following in later.items():
        cost = following.cost + _speed_cost(next_start - start, reading_s)
        options.append(_Best(cost, next_start))
    return min(options)


def _speed_cost(available_s: float, reading_s: float) -> float:
    """Return the cost of a cue's speed: 1 above the reading speed, far more above ``FASTEST``."""
    shown_s = available_s - GAP_S + ROUNDING_S
    if shown_s < SHORTEST_S:
        return inf
    excess = max(0.0, reading_s / shown_s - FASTEST)
    is_fast = shown_s < reading_s
    return is_fast + TOO_FAST_COST * excess
