"""Cues of subtitles, the units they are made of, and the limits that a reader sets.

Width is measured in columns; a Chinese or other wide character takes up two. The limits follow
broadcast guidelines: two lines of 42 columns (16 full-width characters), durations of 5/6 s to 7 s,
gaps of two frames, and 17 characters per second (9 in Chinese).
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from alignatt_agent.config.languages import Language
from alignatt_agent.types import SourceSpan

LINES = 2
"""Maximum number of lines of a cue."""

SHORTEST_S = 5 / 6
"""Minimum duration of a cue, in seconds."""

LONGEST_S = 7.0
"""Maximum duration of a cue, in seconds."""

GAP_S = 1 / 12
"""Gap between two cues, in seconds."""


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


SPACED = Layout(spaced=True, columns=42, speed=17.0, code="en")
UNSPACED = Layout(spaced=False, columns=32, speed=18.0, code="zh")


def layout(target: Language) -> Layout:
    """Return the layout for a language, which depends on whether spaces separate words."""
    common = UNSPACED
    if target.spaced:
        common = SPACED
    return replace(common, code=target.code, rtl=target.rtl)


def text_of(units: Sequence[Said]) -> str:
    """Return the joined text of units."""
    return "".join([unit.text for unit in units])


def width(text: str) -> int:
    """Return the width in columns of a line that consists of ``text``."""
    # A line begins and ends without the spaces that separate it from its neighbors.
    return columns(text.strip())


def columns(text: str) -> int:
    """Return the number of columns of ``text``, including the spaces at its ends."""
    return sum(map(_columns, text))


# Each unit is measured in many possible cues.
@cache
def _columns(char: str) -> int:
    # Combining marks (Mn, Me) and invisible format characters (Cf) take up no column.
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    if unicodedata.east_asian_width(char) in "WF":
        return 2
    return 1
