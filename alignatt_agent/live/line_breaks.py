"""Break the text of subtitles into lines: which units stay together, and where two lines part."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import regex

from alignatt_agent.live.cues import Layout, Said, text_of, width
from alignatt_agent.text.marks import ends_clause, is_punctuation
from alignatt_agent.text.unit_boundaries import boundary_between
from alignatt_agent.types import SourceSpan

CLAUSE_COLUMNS = 10
"""A break after a clause is chosen even if the lines differ by this many columns more."""


def unbreakable(units: Iterable[Said], form: Layout, live: bool = False) -> Iterator[Said]:
    """Join units between which a line cannot break; if ``live``, never wait for a later unit."""
    pending: Said | None = None
    for unit in _pieces(units, form.columns):
        if pending is None:
            pending = unit
        elif _must_join(pending, unit, form, live):
            pending = _joined(pending, unit)
        else:
            yield pending
            pending = unit
    if pending is not None:
        yield pending


def _must_join(left: Said, right: Said, form: Layout, live: bool) -> bool:
    """Return whether two successive units must, and can, be on one line."""
    if live and right.at > left.at:
        return False
    if not _sticks(left.text, right.text, form.spaced):
        return False
    return width(left.text + right.text) <= form.columns


def _sticks(left: str, right: str, spaced: bool) -> bool:
    """Return whether two neighboring units must be on one line."""
    if is_punctuation(right):
        return True
    # A line can break at a space and at the wide space of Chinese and Japanese.
    if right[0] in (" ", "\u3000"):
        return False
    # Any other white space is a no-break space.
    if spaced or right[0].isspace():
        return True
    return not boundary_between(left, right)


def _joined(left: Said, right: Said) -> Said:
    """Return one unit that spans the source words of both, with the later emission time."""
    # The target's word order may differ from the source's, so either unit may be the earlier one.
    start = min(left.spoken.start, right.spoken.start)
    end = max(left.spoken.end, right.spoken.end)
    return Said(left.text + right.text, SourceSpan(start, end), right.at)


def _pieces(units: Iterable[Said], columns: int) -> Iterator[Said]:
    """Yield the units; a unit that is wider than a line is split into pieces that fit."""
    for unit in units:
        piece = ""
        # Grapheme clusters are never split.
        for cluster in regex.findall(r"\X", unit.text):
            if width(piece + cluster) > columns:
                yield replace(unit, text=piece)
                piece = ""
            piece += cluster
        yield replace(unit, text=piece)


def wrap(units: Sequence[Said], form: Layout) -> tuple[str, ...]:
    """Return one line, or two lines of similar width, broken after a clause if possible."""
    text = text_of(units).strip()
    if width(text) <= form.columns:
        return (text,)
    options = []
    for place in range(1, len(units)):
        first = text_of(units[:place]).strip()
        second = text_of(units[place:]).strip()
        if max(width(first), width(second)) > form.columns:
            continue
        cost = abs(width(first) - width(second))
        if ends_clause(first):
            cost -= CLAUSE_COLUMNS
        options.append((cost, (first, second)))
    _, lines = min(options)
    return lines
