"""Divide the units of a recording into cues, by dynamic programming over all possible cues."""

from collections.abc import Iterator, Sequence
from math import inf
from typing import NamedTuple

from alignatt_agent.live.cues import GAP_S, LINES, LONGEST_S, Layout, Said, columns, width
from alignatt_agent.text.marks import ends_clause
from alignatt_agent.text.sentence_starts import begins_sentence

PAUSE_S = 1.5
"""Longest silence between two words of a cue, in seconds."""

NEAR = 8
"""Number of units searched for the start of the next cue, because word orders differ."""

CUE_COST = 1
"""Cost of each cue, which favors few cues; all other costs are relative to it."""

CLAUSE_COST = 1
"""Cost of a cue that ends inside a sentence, after a clause."""

BREAK_COST = 3
"""Cost of a cue that ends inside a clause."""

FAST_COST = 2
"""Cost of each second for which a cue is shown too briefly to be read."""

INNER_COST = 2
"""Cost of each sentence end inside a cue that ends with a sentence."""

STRADDLING_COST = 30
"""Cost of a cue with a sentence end inside whose last sentence is unfinished: this sentence must
begin its own cue."""

FRAGMENT_COST = 2
"""Cost of a cue with a part of a sentence, multiplied by the share of a line that is missing."""


class _Best(NamedTuple):
    """The cheapest cues up to a unit: their cost, and the first unit of the last of them."""

    cost: float
    begin: int


class _Candidate(NamedTuple):
    """A possible cue: its first unit, its width in columns, and the start of its speech."""

    begin: int
    columns: int
    start: float


def group(units: Sequence[Said], form: Layout) -> list[Sequence[Said]]:
    """Split units into cues with the smallest total cost."""
    sentence_ends = _sentence_ends(units, form.code)
    best = [_Best(0.0, 0)]
    for end in range(1, len(units) + 1):
        break_cost = _break_cost(units[end - 1], sentence_ends[end])
        next_start = _next_start(units, end)
        options = []
        for candidate in _candidates(units, end, form):
            available_s = max(0.0, next_start - candidate.start)
            missing_s = max(0.0, candidate.columns / form.speed - available_s)
            cost = best[candidate.begin].cost + CUE_COST + break_cost + FAST_COST * missing_s
            cost += _sentence_cost(candidate, end, sentence_ends, form)
            options.append(_Best(cost, candidate.begin))
        best.append(min(options))
    groups = []
    end = len(units)
    while end:
        begin = best[end].begin
        groups.append(units[begin:end])
        end = begin
    return groups[::-1]


def _sentence_ends(units: Sequence[Said], code: str) -> list[bool]:
    """Return whether a sentence ends before each unit and, as the last item, after all units."""
    sentence_ends = [True]
    for place in range(1, len(units)):
        # The detector reads at most two words before the boundary.
        before = units[place - 1].text
        if place > 1:
            before = units[place - 2].text + before
        sentence_ends.append(begins_sentence(before, units[place].text, code))
    sentence_ends.append(True)
    return sentence_ends


def _break_cost(last: Said, sentence_end: bool) -> int:
    """Return the cost of ending a cue after the unit ``last``."""
    if sentence_end:
        return 0
    if ends_clause(last.text):
        return CLAUSE_COST
    return BREAK_COST


def _next_start(units: Sequence[Said], end: int) -> float:
    """Return the time until which a cue before the unit ``end`` can be shown."""
    starts = [unit.spoken.start for unit in units[end : end + NEAR]]
    return min(starts, default=inf) - GAP_S


def _sentence_cost(
    candidate: _Candidate, end: int, sentence_ends: Sequence[bool], form: Layout
) -> float:
    """Return the cost of the sentence ends inside a cue, or of a part of a sentence."""
    inner = sum(sentence_ends[candidate.begin + 1 : end])
    if inner and sentence_ends[end]:
        return INNER_COST * inner
    if inner:
        return STRADDLING_COST
    if sentence_ends[candidate.begin] and sentence_ends[end]:
        return 0.0
    missing_share = 1 - candidate.columns / form.columns
    return FRAGMENT_COST * max(0.0, missing_share)


def _candidates(units: Sequence[Said], end: int, form: Layout) -> Iterator[_Candidate]:
    """Yield each possible cue that ends before the unit ``end``, the shortest first."""
    # Columns of the whole cue and of its current line. Both include the space before the first
    # word, because another unit will precede it.
    cue_columns = line_columns = 0
    lines = 1
    first_start = inf
    last_end = -inf
    for begin in range(end - 1, -1, -1):
        spoken = units[begin].spoken
        text = units[begin].text
        if line_columns + width(text) > form.columns:
            lines += 1
            line_columns = 0
        pause_s = first_start - spoken.end
        first_start = min(first_start, spoken.start)
        last_end = max(last_end, spoken.end)
        if lines > LINES:
            return
        # One unit is always a possible cue, however long its source words last.
        is_single = begin == end - 1
        if not is_single and (pause_s > PAUSE_S or last_end - first_start > LONGEST_S):
            return
        yield _Candidate(begin, cue_columns + width(text), first_start)
        cue_columns += columns(text)
        line_columns += columns(text)
