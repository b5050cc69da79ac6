"""Convert timed units to cues: subtitles of a recording, or roll-up captions of live speech."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import inf

from alignatt_agent.live.cue_breaks import group
from alignatt_agent.live.cue_times import ROUNDING_S, cue_starts
from alignatt_agent.live.cues import GAP_S, LINES, LONGEST_S, SHORTEST_S, Cue, Layout, Said, width
from alignatt_agent.live.line_breaks import unbreakable, wrap


def spoken_cues(units: Sequence[Said], form: Layout) -> list[Cue]:
    """Divide the ``units`` of a recording into cues that follow the times of the speech.

    A cue begins at the time of its earliest source word, plus one of ``SHIFTS_S``. Only the minimum
    duration of the previous cue may delay it further.
    """
    groups = group(list(unbreakable(units, form)), form)
    starts = cue_starts(groups, form)
    cues = []
    for cue_units, (start, next_start) in zip(groups, pairwise([*starts, inf]), strict=True):
        lines = wrap(cue_units, form)
        speech_end = max([unit.spoken.end for unit in cue_units])
        readable_end = start + _reading_s(lines, form)
        end = max(start + SHORTEST_S, readable_end, speech_end)
        end = min(end, start + LONGEST_S, next_start - GAP_S)
        cues.append(Cue(start, end, lines))
    return cues


def said_cues(units: Sequence[Said], form: Layout) -> list[Cue]:
    """Return roll-up captions: the last two lines after each unit."""
    rows: list[str] = []
    shown_from: dict[float, tuple[str, ...]] = {}
    for unit in unbreakable(units, form, live=True):
        if rows and width(rows[-1] + unit.text) <= form.columns:
            rows[-1] += unit.text
        else:
            rows.append(unit.text.strip())
        # Units that were emitted together appear in one cue.
        shown_from[unit.at] = tuple(rows[-LINES:])
    cues = []
    for start, next_start in pairwise([*shown_from, inf]):
        end = min(next_start, start + LONGEST_S)
        cues.append(Cue(start, end, shown_from[start]))
    return cues


def too_fast(cues: Iterable[Cue], form: Layout) -> int:
    """Count the cues that exceed the reading speed."""
    count = 0
    for cue in cues:
        readable = form.speed * (cue.end - cue.start)
        count += sum(map(width, cue.lines)) > readable + ROUNDING_S
    return count


def _reading_s(lines: Sequence[str], form: Layout) -> float:
    """Return the number of seconds in which lines can be read."""
    return sum(map(width, lines)) / form.speed
