"""Subtitles from units with times: cues of two lines, in a readable pace, as SRT or WebVTT.

Width is counted in columns; a wide character, e.g. a Chinese one, takes two of them. The limits
are those of broadcast guidelines: two lines of 42 columns (16 full-width characters), 5/6 s to 7 s,
two frames between cues, 17 characters a second (9 of Chinese).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import chain

from alignatt_agent.translation.units import CLOSING, QUOTES, ends_clause, is_punctuation
from alignatt_agent.types import SourceSpan

LINES = 2
SHORTEST_S, LONGEST_S = 5 / 6, 7.0
GAP_S = 1 / 12
PAUSE_S = 1.5
"""Longer silence parts two cues."""
SENTENCE = ".!?…。！？؟।॥"  # noqa: RUF001
"""Marks that end a sentence."""


@dataclass(frozen=True, slots=True)
class Said:
    """A unit of the output.

    Attributes:
        text: without white space.
        spoken: time of the words that it translates.
        at: when it was emitted, in seconds; never before the units in front of it.
    """

    text: str
    spoken: SourceSpan
    at: float


@dataclass(frozen=True, slots=True)
class Cue:
    """Lines on the screen from ``start`` to ``end``, in seconds."""

    start: float
    end: float
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """The longest line and the reading speed (columns per second) of a script."""

    spaced: bool
    columns: int
    speed: float

    @property
    def glue(self) -> str:
        """Return what separates two units on a line."""
        return " " if self.spaced else ""


SPACED, UNSPACED = Layout(True, 42, 17.0), Layout(False, 32, 18.0)


def layout(spaced: bool) -> Layout:
    """Return the layout of scripts with or without spaces."""
    return SPACED if spaced else UNSPACED


def width(text: str) -> int:
    """Return the columns that ``text`` takes; a mark written on another character takes none."""
    return sum(_columns(char) for char in text)


def spoken_cues(units: Sequence[Said], form: Layout) -> list[Cue]:
    """Cut ``units`` into cues on the clock of the speech, for a recording.

    A cue begins when the first of its source words was spoken, whatever the order of its units;
    only the shortest time of the previous cue may delay it.
    """
    groups = _groups(_atoms(units, form), form)
    starts: list[float] = []
    for group in groups:
        earliest = starts[-1] + SHORTEST_S + GAP_S if starts else 0.0
        starts.append(max(earliest, min(unit.spoken.start for unit in group)))
    cues = []
    for number, (group, start) in enumerate(zip(groups, starts, strict=True)):
        lines = _wrap(group, form)
        read = sum(map(width, lines)) / form.speed
        wanted = max(start + SHORTEST_S, start + read, *(unit.spoken.end for unit in group))
        limits = [next_start - GAP_S for next_start in starts[number + 1 : number + 2]]
        cues.append(Cue(start, min(wanted, start + LONGEST_S, *limits), lines))
    return cues


def said_cues(units: Sequence[Said], form: Layout) -> list[Cue]:
    """Return roll-up captions: the last two lines as they grew."""
    rows: list[str] = []
    states: list[tuple[float, tuple[str, ...]]] = []
    for unit in _atoms(units, form, live=True):
        grown = form.glue.join([rows[-1], unit.text]) if rows else unit.text
        if rows and width(grown) <= form.columns:
            rows[-1] = grown
        else:
            rows.append(unit.text)
        if states and unit.at <= states[-1][0]:
            states.pop()
        states.append((unit.at, tuple(rows[-LINES:])))
    ends = [at for at, _ in states[1:]] + [at + LONGEST_S for at, _ in states[-1:]]
    return [
        Cue(at, min(end, at + LONGEST_S), lines)
        for (at, lines), end in zip(states, ends, strict=True)
    ]


def too_fast(cues: Iterable[Cue], form: Layout) -> int:
    """Count the cues that are above the reading speed."""
    return sum(
        sum(map(width, cue.lines)) > form.speed * (cue.end - cue.start) + 1e-6 for cue in cues
    )


def srt(cues: Iterable[Cue]) -> str:
    """Write SubRip."""
    return "\n".join(
        f"{number}\n{_clock(cue.start, ',')} --> {_clock(cue.end, ',')}\n" + _text(cue.lines)
        for number, cue in enumerate(cues, 1)
    )


def vtt(cues: Iterable[Cue]) -> str:
    """Write WebVTT."""
    blocks = (
        f"{_clock(cue.start, '.')} --> {_clock(cue.end, '.')}\n"
        + escape(_text(cue.lines), quote=False)
        for cue in cues
    )
    return "\n".join(["WEBVTT\n", *blocks])


def _text(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _clock(seconds: float, mark: str) -> str:
    ms = round(1000 * seconds)
    return f"{ms // 3600000:02}:{ms // 60000 % 60:02}:{ms // 1000 % 60:02}{mark}{ms % 1000:03}"


def _columns(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _atoms(units: Iterable[Said], form: Layout, live: bool = False) -> Iterator[Said]:
    """Yield what no line is broken inside: units, and in unspaced scripts runs of them.

    Live, a unit does not wait for later ones.
    """
    held: Said | None = None
    for unit in chain.from_iterable(_cut(unit, form.columns) for unit in units):
        waits = held is not None and live and unit.at > held.at
        if held is not None and not form.spaced and not waits and _sticks(held.text, unit.text):
            joined = held.text + unit.text
            if width(joined) <= form.columns:
                start = min(held.spoken.start, unit.spoken.start)
                end = max(held.spoken.end, unit.spoken.end)
                held = Said(joined, SourceSpan(start, end), unit.at)
                continue
        if held is not None:
            yield held
        held = unit
    if held is not None:
        yield held


def _sticks(left: str, right: str) -> bool:
    """Whether two neighbours of an unspaced script stay on one line."""
    decimal = left[-1] in ".," and right[0].isdigit()
    return is_punctuation(right) or decimal or (_latin(left[-1]) and _latin(right[0]))


def _latin(char: str) -> bool:
    return char.isascii() and char not in CLOSING + QUOTES


def _cut(unit: Said, columns: int) -> Iterator[Said]:
    """Yield a unit in pieces that fit on a line."""
    piece, taken = "", 0
    for char in unit.text:
        if taken + _columns(char) > columns:
            yield replace(unit, text=piece)
            piece, taken = "", 0
        piece, taken = piece + char, taken + _columns(char)
    yield replace(unit, text=piece)


def _groups(atoms: Iterable[Said], form: Layout) -> list[list[Said]]:
    """Part units into cues: at pauses and sentence ends, and where two lines are full."""
    groups: list[list[Said]] = []
    for unit in atoms:
        last = groups[-1] if groups else []
        if not last or _ends(last, unit, form):
            groups.append([unit])
        elif _wrap([*last, unit], form):
            last.append(unit)
        else:
            cut = _clause(last, form)
            groups[-1:] = [last[:cut], [*last[cut:], unit]] if cut < len(last) else [last, [unit]]
    return groups


def _ends(group: Sequence[Said], unit: Said, form: Layout) -> bool:
    """Whether a cue ends before ``unit``, even if it is not full."""
    start = min(item.spoken.start for item in group)
    end = max(item.spoken.end for item in group)
    if unit.spoken.start - end > PAUSE_S or max(end, unit.spoken.end) - start > LONGEST_S:
        return True
    closed = group[-1].text.rstrip(QUOTES).endswith(tuple(SENTENCE))
    return closed and _total(group, form) > form.columns / 2


def _clause(group: Sequence[Said], form: Layout) -> int:
    """Return where to cut a full cue: behind its last clause, if that leaves half a cue."""
    for count in range(len(group), 0, -1):
        if _total(group[:count], form) < _total(group, form) / 2:
            break
        if ends_clause(group[count - 1].text):
            return count
    return len(group)


def _total(group: Sequence[Said], form: Layout) -> int:
    return width(form.glue.join(unit.text for unit in group))


def _wrap(group: Sequence[Said], form: Layout) -> tuple[str, ...]:
    """Return one line, or two of like width that break behind a clause; none if they do not fit."""
    texts = [unit.text for unit in group]
    whole = form.glue.join(texts)
    if width(whole) <= form.columns:
        return (whole,)
    best: tuple[float, tuple[str, ...]] | None = None
    for count in range(1, len(texts)):
        lines = form.glue.join(texts[:count]), form.glue.join(texts[count:])
        left, right = map(width, lines)
        if max(left, right) <= form.columns:
            cost = abs(left - right) - 10 * ends_clause(lines[0])
            best = min(best, (cost, lines)) if best else (cost, lines)
    return best[1] if best else ()
