"""Boundaries of stability units in text; ``translation/units.py`` applies them to token ids.

A unit begins with the preceding white space.

* Spaced scripts: a unit is a whitespace-delimited word with its punctuation.
* Unspaced scripts: a unit is one grapheme cluster, in Thai with its vowels, or a run of Latin
  letters, digits and ASCII marks.
"""

import regex

from alignatt_agent.text.marks import CLAUSE_ENDS, CLOSERS

_RUN = r"[[\p{ASCII}\p{L}\p{N}\p{S}\p{M}]--[\s\x1c-\x1f\p{ea=W}\p{ea=F}\u0e00-\u0e7f]]"
_CLUSTER = r"\p{InPC=Visual_Order_Left}*\X\p{InPC=Right}*"  # some Thai vowels come first
_UNSPACED = regex.compile(rf"([\s\x1c-\x1f]*+)((?:(?={_RUN})\X)+|{_CLUSTER})", regex.V1)
_SPACED = regex.compile(r"([\s\x1c-\x1f]*+)([^\s\x1c-\x1f]+)", regex.V1)
_OPEN_END = regex.compile(rf"{_RUN}|[\u0e00-\u0e7f]", regex.V1)
_GAP = regex.compile(r"\p{Zs}?")


def split_units(text: str, spaced: bool) -> tuple[str, ...]:
    """Return the units of ``text``; ``spaced`` means that the language uses spaces."""
    pattern = _SPACED if spaced else _UNSPACED
    units: list[str] = []
    for gap, solid in pattern.findall(text):
        separator = gap
        # A unit begins with one character of white space at most.
        if not _GAP.fullmatch(gap):
            separator = " "
        units.append(separator + solid)
    return tuple(units)


def unspaced_ends(text: str) -> set[int]:
    """Return the ends of the units of ``text`` in an unspaced script, in characters."""
    return {match.end() for match in _UNSPACED.finditer(text)}


def boundary_between(left: str, right: str) -> bool:
    """Return whether a unit boundary separates adjacent texts of an unspaced script."""
    return len(left) in unspaced_ends(left + right)


def takes_more(text: str) -> bool:
    """Return whether later text can be attached to the last unit of ``text``, if unspaced."""
    if not text or text[-1] in CLAUSE_ENDS + CLOSERS:
        return True
    return _OPEN_END.match(text[-1]) is not None
