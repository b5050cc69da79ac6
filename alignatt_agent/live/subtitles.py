"""Convert timed units to subtitles: readable cues of two lines, as SRT or WebVTT.

Width is measured in columns; a Chinese or other wide character takes up two. The limits follow
broadcast guidelines: two lines of 42 columns (16 full-width characters), durations of 5/6 s to 7 s,
gaps of two frames, and 17 characters per second (9 in Chinese).
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from html import escape
from itertools import accumulate, chain, pairwise
from math import inf

import regex

from alignatt_agent.config.languages import Language
from alignatt_agent.text.marks import ends_clause, is_punctuation
from alignatt_agent.text.sentence_starts import begins_sentence
from alignatt_agent.text.unit_boundaries import boundary_between
from alignatt_agent.types import SourceSpan

LINES = 2
SHORTEST_S, LONGEST_S = 5 / 6, 7.0
GAP_S = 1 / 12
PAUSE_S = 1.5
"""Longest silence between two words of a cue, in seconds."""
LEFT, RIGHT, EMBED_RIGHT, END = "\u200e", "\u200f", "\u202b", "\u202c"
"""Unicode's direction marks LRM and RLM, and the embedding from RLE to PDF."""
JOINER = "\u2060"
"""WORD JOINER: invisible, and forbids a line break."""
_SRT_MARKUP = re.compile(r"<|\\(?=[Nnh])|&(?=#?\w+;)|--(?=>)")
"""Beginnings of tags, ASS escapes, entities and the arrow between two times."""
SHIFTS_S = [tenth / 10 for tenth in range(-5, 21)]
"""Shifts of a cue's start that are tried to gain reading time: -0.5 s to 2 s."""
FASTEST = 25 / 17
"""Maximum multiple of the reading speed; cues exceed it only if no shift prevents this."""
NEAR = 8
"""Number of units searched for the start of the next cue, because word orders differ."""


@dataclass(frozen=True, slots=True)
class Said:
    """An emitted unit."""

    text: str  # text to append, including the space before it
    spoken: SourceSpan  # time of the source words
    at: float  # emission time in seconds, which never decreases


@dataclass(frozen=True, slots=True)
class Cue:
    """Lines shown from ``start`` to ``end``, in seconds."""

    start: float
    end: float
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """The maximum columns per line, speed (columns per second) and direction of a language."""

    spaced: bool
    columns: int
    speed: float
    code: str
    rtl: bool = False


SPACED, UNSPACED = Layout(True, 42, 17.0, "en"), Layout(False, 32, 18.0, "zh")


def layout(target: Language) -> Layout:
    """Return the layout for a language, which depends on whether spaces separate words."""
    return replace(SPACED if target.spaced else UNSPACED, code=target.code, rtl=target.rtl)


def width(text: str) -> int:
    """Return the width of ``text`` in columns; combining marks have no width."""
    return sum(_columns(char) for char in text.strip())


def spoken_cues(units: Sequence[Said], form: Layout) -> list[Cue]:
    """Divide the ``units`` of a recording into cues that follow the times of the speech.

    A cue begins at the time of its earliest source word, plus one of ``SHIFTS_S``. Only the minimum
    duration of the previous cue may delay it further.
    """
    groups = _groups(list(_atoms(units, form)), form)
    starts = _starts(groups, form)
    cues = []
    for group, start, limit in zip(groups, starts, [*starts[1:], inf], strict=False):
        lines = _wrap(group, form)
        read = sum(map(width, lines)) / form.speed
        wanted = max(start + SHORTEST_S, start + read, *(unit.spoken.end for unit in group))
        cues.append(Cue(start, min(wanted, start + LONGEST_S, limit - GAP_S), lines))
    return cues


def said_cues(units: Sequence[Said], form: Layout) -> list[Cue]:
    """Return roll-up captions: the last two lines after each unit."""
    rows: list[str] = []
    states: dict[float, tuple[str, ...]] = {}
    for unit in _atoms(units, form, live=True):
        if rows and width(rows[-1] + unit.text) <= form.columns:
            rows[-1] += unit.text
        else:
            rows.append(unit.text.strip())
        states[unit.at] = tuple(rows[-LINES:])
    return [
        Cue(at, min(end, at + LONGEST_S), lines)
        for (at, lines), end in zip(states.items(), [*list(states)[1:], inf], strict=False)
    ]


def too_fast(cues: Iterable[Cue], form: Layout) -> int:
    """Count the cues that exceed the reading speed."""
    return sum(
        sum(map(width, cue.lines)) > form.speed * (cue.end - cue.start) + 1e-6 for cue in cues
    )


def srt(cues: Iterable[Cue], rtl: bool = False) -> str:
    """Return cues in SubRip format; ``rtl`` is the direction of the language."""
    blocks = []
    for number, cue in enumerate(cues, 1):
        lines = [_srt_line(line, rtl) for line in cue.lines]
        blocks.append(f"{number}\n{_block(cue, ',', lines)}")
    return "\n".join(blocks)


def vtt(cues: Iterable[Cue], rtl: bool = False, note: str = "") -> str:
    """Return cues in WebVTT format, with an optional note at the beginning."""
    blocks = ["WEBVTT\n"]
    if note:
        blocks.append(f"NOTE {note}\n")
    for cue in cues:
        lines = [_marked(escape(line, quote=False), _direction(line), rtl) for line in cue.lines]
        blocks.append(_block(cue, ".", lines))
    return "\n".join(blocks)


def _block(cue: Cue, mark: str, lines: Sequence[str]) -> str:
    text = "".join(f"{line}\n" for line in lines)
    return f"{_clock(cue.start, mark)} --> {_clock(cue.end, mark)}\n{text}"


def _srt_line(line: str, rtl: bool) -> str:
    """Return a line for SubRip, which has no escapes and does not state a direction.

    Players interpret tags, ASS overrides and entities. They show them if a word joiner follows the
    first character. Braces are replaced, because players that convert SubRip to ASS hide all text
    between two braces.
    """
    shown = line.replace("{", "\uff5b").replace("}", "\uff5d")  # FULLWIDTH CURLY BRACKET
    shown = _SRT_MARKUP.sub(rf"\g<0>{JOINER}", shown)
    if rtl:  # libass assumes left to right for the whole line
        return f"{EMBED_RIGHT}{shown}{END}"
    return _marked(shown, _direction(line), rtl)


def _marked(shown: str, direction: str | None, rtl: bool) -> str:
    """Add a direction mark if the first letter has another direction than the language."""
    if rtl and direction != RIGHT:
        return RIGHT + shown
    if not rtl and direction == RIGHT:
        return LEFT + shown
    return shown


def _direction(line: str) -> str | None:
    """Return the mark of the direction of a line's first letter, which decides for most players."""
    for char in line:
        kind = unicodedata.bidirectional(char)
        if kind == "L":
            return LEFT
        if kind in ("R", "AL"):
            return RIGHT
    return None


def _clock(seconds: float, mark: str) -> str:
    ms = round(1000 * seconds)
    return f"{ms // 3600000:02}:{ms // 60000 % 60:02}:{ms // 1000 % 60:02}{mark}{ms % 1000:03}"


@cache
def _columns(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _atoms(units: Iterable[Said], form: Layout, live: bool = False) -> Iterator[Said]:
    """Join units between which a line cannot break; if ``live``, never wait for a later unit."""
    held: Said | None = None
    for unit in chain.from_iterable(_cut(unit, form.columns) for unit in units):
        waits = held is not None and live and unit.at > held.at
        if held is not None and not waits and _sticks(held.text, unit.text, form.spaced):
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


def _sticks(left: str, right: str, spaced: bool) -> bool:
    """Return whether two neighboring units must be on one line."""
    if right[0] in (" ", "\u3000") or is_punctuation(right):
        return is_punctuation(right)
    # White space that is neither of the two spaces above is a no-break space.
    if spaced or right[0].isspace():
        return True
    return not boundary_between(left, right)


def _cut(unit: Said, columns: int) -> Iterator[Said]:
    """Split a unit into pieces that fit on a line."""
    piece = ""
    for cluster in regex.findall(r"\X", unit.text):
        if width(piece + cluster) > columns:
            yield replace(unit, text=piece)
            piece = ""
        piece += cluster
    yield replace(unit, text=piece)


def _groups(atoms: Sequence[Said], form: Layout) -> list[Sequence[Said]]:
    """Split units into cues with the smallest total cost."""
    texts = [unit.text for unit in atoms]
    befores = map("".join, pairwise(["", *texts]))
    pairs = zip(befores, texts[1:], strict=False)
    # The item at index -1 stands for the position before the first unit.
    ends = [*(begins_sentence(before, text, form.code) for before, text in pairs), True, True]
    best = [(0.0, 0)]  # cost of the cues up to a unit, and start of the last cue
    for end in range(1, len(atoms) + 1):
        closed = ends[end - 1] or end == len(atoms)
        cut = 0 if closed else 1 if ends_clause(atoms[end - 1].text) else 3
        coming = min((unit.spoken.start for unit in atoms[end : end + NEAR]), default=inf) - GAP_S
        options = []
        for begin, columns, start in _fitting(atoms, end, form):
            missing_s = columns / form.speed - max(0.0, coming - start)
            cost = best[begin][0] + 1 + cut + 2 * max(0.0, missing_s)
            if inner := sum(ends[begin : end - 1]):
                cost += 2 * inner if closed else 30  # an unfinished sentence must begin its cue
            elif not (closed and ends[begin - 1]):
                cost += 2 * max(0.0, 1 - columns / form.columns)  # a fragment
            options.append((cost, begin))
        best.append(min(options))
    groups, end = [], len(atoms)
    while end:
        begin = best[end][1]
        groups.append(atoms[begin:end])
        end = begin
    return groups[::-1]


def _fitting(atoms: Sequence[Said], end: int, form: Layout) -> Iterator[tuple[int, int, float]]:
    """Yield the first unit, columns, and start of each possible cue that ends before ``end``."""
    columns = line = 0  # of the text after ``begin``, including the space before this text
    rows, start, last = 1, inf, -inf
    for begin in range(end - 1, -1, -1):
        spoken, text = atoms[begin].spoken, atoms[begin].text
        if line + width(text) > form.columns:
            rows, line = rows + 1, 0
        pause = start - spoken.end
        start, last = min(start, spoken.start), max(last, spoken.end)
        if rows > LINES or (begin < end - 1 and (pause > PAUSE_S or last - start > LONGEST_S)):
            return
        yield begin, columns + width(text), start
        columns, line = (taken + sum(map(_columns, text)) for taken in (columns, line))


def _starts(groups: Sequence[Sequence[Said]], form: Layout) -> list[float]:
    """Return the cue starts with the fewest fast cues and, among those, the smallest shifts."""
    texts = ["".join(unit.text for unit in group) for group in groups]
    read = [max(SHORTEST_S, width(text) / form.speed) for text in texts]
    heard = [min(unit.spoken.start for unit in group) for group in groups]
    heard = list(accumulate(heard, lambda before, own: max(before + SHORTEST_S + GAP_S, own)))
    found = [{inf: (0.0, inf)}]  # from the last cue backward, by start: cost and next start
    for at, needed in zip(heard[::-1], read[::-1], strict=True):
        options = {}
        for start in [max(0.0, at + shift) for shift in SHIFTS_S]:
            after = ((cost + _haste(t - start, needed), t) for t, (cost, _) in found[-1].items())
            cost, then = min(after)
            options[start] = cost + abs(start - at) / 10, then
        found.append(options)
    starts = [min(found[-1], key=found[-1].__getitem__)]
    for options in found[:1:-1]:
        starts.append(options[starts[-1]][1])
    return starts


def _haste(given_s: float, needed_s: float) -> float:
    """Return the cost of a cue's speed: 1 above the reading speed, far more above ``FASTEST``."""
    shown_s = given_s - GAP_S + 1e-6
    if shown_s < SHORTEST_S:
        return inf
    return (shown_s < needed_s) + 100 * max(0.0, needed_s / shown_s - FASTEST)


def _wrap(group: Sequence[Said], form: Layout) -> tuple[str, ...]:
    """Return one line, or two lines of similar width, broken after a clause if possible."""
    texts = [unit.text for unit in group]
    whole = "".join(texts).strip()
    if width(whole) <= form.columns:
        return (whole,)
    halves = (("".join(texts[:k]), "".join(texts[k:])) for k in range(1, len(texts)))
    cuts = ((one.strip(), two.strip()) for one, two in halves)
    costs = [
        (abs(width(one) - width(two)) - 10 * ends_clause(one), (one, two))
        for one, two in cuts
        if max(width(one), width(two)) <= form.columns
    ]
    return min(costs)[1]
