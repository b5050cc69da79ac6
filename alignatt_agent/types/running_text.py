"""Words of running text, in scripts with and without spaces.

Where a script writes no spaces between words (Han characters, kana, Thai), every character is a
word, with marks and punctuation that belong to it; anything else is a word up to the next white
space. Thai's spaces between phrases are left out.
"""

import unicodedata
from collections.abc import Sequence
from itertools import takewhile
from operator import eq


def split_words(text: str) -> list[str]:
    """Split ``text`` into words with their punctuation, e.g. ``["我", "用", "GPU。"]``."""
    words: list[str] = []
    for chunk in text.split():
        before = ""
        for char in chunk:
            if not before or _parts(before, char):
                words.append(char)
            else:
                words[-1] += char
            before = char
    return words


def gaps(words: Sequence[str]) -> list[str]:
    """Return what stands in front of each word in running text: a space, or nothing."""
    return [
        " " if k and not (_unspaced(words[k - 1][-1]) and _unspaced(word[0])) else ""
        for k, word in enumerate(words)
    ]


def join_words(words: Sequence[str]) -> str:
    """Write ``words`` as running text."""
    return "".join(gap + word for gap, word in zip(gaps(words), words, strict=True))


def common_prefix(one: Sequence[object], two: Sequence[object]) -> int:
    """Return how many leading words, or other items, two sequences share."""
    return sum(1 for _ in takewhile(bool, map(eq, one, two)))


def _parts(left: str, right: str) -> bool:
    """Whether a word ends between two characters that touch."""
    kind = unicodedata.category(right)
    if unicodedata.category(left) in ("Ps", "Pi") or kind == "Lm" or kind[0] == "M":
        return False
    if kind[0] == "P" and kind not in ("Ps", "Pi"):
        return False
    return _unspaced(left) or _unspaced(right)


def _unspaced(char: str) -> bool:
    """Whether a character is a letter or mark of a script without spaces; Hangul has them."""
    if "\u0e01" <= char <= "\u0e5b":  # Thai
        return True
    if unicodedata.east_asian_width(char) not in "WF":
        return False
    return unicodedata.category(char)[0] in "LNP" and not "\uac00" <= char <= "\ud7a3"
