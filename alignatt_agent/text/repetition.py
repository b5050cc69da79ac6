"""Detect loops: model output whose end is repeated far more often than in speech."""

from collections.abc import Sequence
from typing import NamedTuple

from alignatt_agent.text.running_text import bare, is_unspaced

_TIMES, _ITEMS = 3, 12
"""A loop repeats a part at least three times and is at least 12 words longer than two such parts:
one word 14 times, two words 8 times, six words 4 times. Speakers repeat one word up to 8 times.
"""

_CHARACTERS = 4
"""Characters of a script without spaces that may be one word, e.g. ``なるほど``."""


class Loop(NamedTuple):
    """The first copy of the repeated part ends at ``first_end``; a part has ``size`` items."""

    first_end: int
    size: int


def find_loop(items: Sequence[object]) -> Loop | None:
    """Return the loop at the end of ``items``, which are words, marks or token ids, if any."""
    for size in range(1, len(items) // _TIMES + 1):
        same = 0
        while same < len(items) - size and items[-1 - same] == items[-1 - same - size]:
            same += 1
        if same < (_TIMES - 1) * size:
            continue
        if same >= size * (1 + _ITEMS / _words(items[-size:])):
            return Loop(first_end=len(items) - same, size=size)
    return None


def loop_start(items: Sequence[object]) -> int | None:
    """Return the index where the first copy of the repeated part ends, or ``None`` without a loop.

    ``items`` are words or token ids; ``items[:loop_start(items)]`` contains the part once.
    """
    loop = find_loop(items)
    if loop is None:
        return None
    return loop.first_end


def most_copies(words: Sequence[str]) -> int:
    """Return how often a speaker repeats a part without a break, at least 1.

    Marks and capital letters are ignored.
    """
    spoken: list[str] = []
    for word in words:
        letters = bare(word)
        # Marks alone do not break a repetition.
        if letters:
            spoken.append(letters)
    most = 1
    for size in range(1, len(spoken) // 2 + 1):
        same = 0
        for word, next_word in zip(spoken, spoken[size:], strict=False):
            # ``same`` counts successive words that recur ``size`` words later.
            if word == next_word:
                same += 1
            else:
                same = 0
            most = max(most, same // size + 1)
    return most


def _words(part: Sequence[object]) -> float:
    """Return the number of words in a part; a mark counts as a word only between several words."""
    words = 0.0
    marks = 0
    for item in part:
        if not isinstance(item, str):
            words += 1
        elif not bare(item):
            marks += 1
        elif is_unspaced(item):
            words += 1 / _CHARACTERS
        else:
            words += 1
    if words <= 1:
        return 1.0
    return words + marks
