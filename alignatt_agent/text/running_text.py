"""Split and join words of running text, in scripts with and without spaces.

In a script without spaces between words (Han characters, kana, Thai), every character is a
word, with its marks and punctuation; other text is a word up to the next white
space. Spaces between Thai phrases are removed.
"""

import unicodedata
from collections.abc import Sequence

import regex

_CHAR = r"[[\p{ea=W}\p{ea=F}]&&[\p{L}\p{N}\p{P}]--[\uac00-\ud7a3]]|[\u0e01-\u0e5b]"
"""A letter or mark of a script without spaces; Hangul uses spaces, Thai does not."""
_UNSPACED = regex.compile(_CHAR, regex.V1)
_BEHIND = r"[\p{Lm}\p{M}[\p{P}--[\p{Ps}\p{Pi}]]]"
_BORDER = regex.compile(
    rf"[\s\x1c-\x1f]+|(?<![\p{{Ps}}\p{{Pi}}])(?!{_BEHIND})(?:(?<={_CHAR})|(?={_CHAR}))", regex.V1
)
_WORD_OR_MARKS = regex.compile(
    rf"{_CHAR}|(?:(?!{_CHAR})[\p{{L}}\p{{M}}\p{{N}}])+|(?:(?!{_CHAR})[^\p{{L}}\p{{M}}\p{{N}}\s])+",
    regex.V1,
)
_LETTER = regex.compile(r"[[\p{L}\p{N}]--\p{Default_Ignorable_Code_Point}]", regex.V1)


def split_words(text: str) -> list[str]:
    """Split ``text`` into words with their punctuation, e.g. ``["我", "用", "GPU。"]``."""
    return [word for word in _BORDER.split(text) if word]


def words_and_marks(text: str) -> list[tuple[int, int]]:
    """Return the first and last character of each word and of each group of marks.

    In a script without spaces between words, every character is a word.
    """
    return [match.span() for match in _WORD_OR_MARKS.finditer(text)]


def is_unspaced(word: str) -> bool:
    """Return whether a word begins with a character of a script without spaces."""
    return _UNSPACED.match(word) is not None


def has_letters(words: Sequence[str]) -> bool:
    """Return whether any word contains a visible letter or digit."""
    return any(_LETTER.search(word) for word in words)


def gaps(words: Sequence[str]) -> list[str]:
    """Return the separator before each word in running text: a space or an empty string."""
    separators: list[str] = []
    for index, word in enumerate(words):
        if index == 0 or (is_unspaced(words[index - 1][-1]) and is_unspaced(word)):
            separators.append("")
        else:
            separators.append(" ")
    return separators


def join_words(words: Sequence[str]) -> str:
    """Join ``words`` into running text."""
    text = ""
    for gap, word in zip(gaps(words), words, strict=True):
        text += gap + word
    return text


def common_prefix(one: Sequence[object], two: Sequence[object]) -> int:
    """Return the number of leading words, or other items, that two sequences share."""
    count = 0
    for left, right in zip(one, two, strict=False):
        if left != right:
            break
        count += 1
    return count


def bare(text: str) -> str:
    """Return only the letters and digits of a text, with case folded."""
    # Full-width letters and ligatures are equal to their plain forms.
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(char for char in folded if char.isalnum())


def without_marks(word: str) -> str:
    """Return a word without the punctuation at its end."""
    return str(regex.sub(r"\W+$", "", word))
