"""Write cues as SubRip (SRT) or WebVTT, such that players show every character of the text."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from html import escape

from alignatt_agent.live.cues import Cue

LEFT = "\u200e"
"""LEFT-TO-RIGHT MARK: invisible, sets the direction of the text around it."""

RIGHT = "\u200f"
"""RIGHT-TO-LEFT MARK: invisible, sets the direction of the text around it."""

EMBED_RIGHT = "\u202b"
"""RIGHT-TO-LEFT EMBEDDING, which extends to ``END``."""

END = "\u202c"
"""POP DIRECTIONAL FORMATTING."""

JOINER = "\u2060"
"""WORD JOINER: invisible, and forbids a line break."""

_SRT_MARKUP = re.compile(r"<|\\(?=[Nnh])|&(?=#?\w+;)|--(?=>)")
"""Beginnings of tags, ASS escapes, entities and the arrow between two times."""

_FULL_WIDTH_BRACES = str.maketrans("{}", "\uff5b\uff5d")
"""Replacements that look like braces, see ``_srt_line``."""


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
        lines = [_vtt_line(line, rtl) for line in cue.lines]
        blocks.append(_block(cue, ".", lines))
    return "\n".join(blocks)


def _block(cue: Cue, decimal_mark: str, lines: Sequence[str]) -> str:
    times = f"{_clock(cue.start, decimal_mark)} --> {_clock(cue.end, decimal_mark)}"
    return "\n".join([times, *lines, ""])


def _clock(seconds: float, decimal_mark: str) -> str:
    ms = round(1000 * seconds)
    hours = ms // 3_600_000
    minutes = ms // 60_000 % 60
    return f"{hours:02}:{minutes:02}:{ms // 1000 % 60:02}{decimal_mark}{ms % 1000:03}"


def _vtt_line(line: str, rtl: bool) -> str:
    shown = escape(line, quote=False)
    return _marked(shown, _direction(line), rtl)


def _srt_line(line: str, rtl: bool) -> str:
    """Return a line for SubRip, which has no escapes and does not state a direction.

    Players interpret tags, ASS overrides and entities. They show them if a word joiner follows the
    first character. Braces are replaced, because players that convert SubRip to ASS hide all text
    between two braces.
    """
    shown = line.translate(_FULL_WIDTH_BRACES)
    shown = _SRT_MARKUP.sub(rf"\g<0>{JOINER}", shown)
    # libass assumes left to right for the whole line, so a mark at its beginning is not enough.
    if rtl:
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
        bidirectional_class = unicodedata.bidirectional(char)
        if bidirectional_class == "L":
            return LEFT
        # The classes of Hebrew and of Arabic letters.
        if bidirectional_class in ("R", "AL"):
            return RIGHT
    return None
