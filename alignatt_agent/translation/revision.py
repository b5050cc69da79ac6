"""Where the words of a source are after the recognizer revised it."""

from collections.abc import Sequence
from difflib import SequenceMatcher


def carry_over(old: Sequence[str], new: Sequence[str]) -> list[int]:
    """Return the position in ``new`` of every word of ``old``; positions never decrease.

    Words that ``new`` does not reach map past its end, one by one: a closed sentence is the
    beginning of the earlier live words, so the others belong to what follows it.
    """
    places: list[int] = []
    matcher = SequenceMatcher(
        None, [_bare(w) for w in old], [_bare(w) for w in new], autojunk=False
    )
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        for k in range(i2 - i1):
            if tag == "equal" or i2 == len(old):
                places.append(j1 + k)
            else:
                places.append(min(j1 + k, max(j1, j2 - 1)))
    return places


def realigned(
    aligned: Sequence[int | None], old: Sequence[str], new: Sequence[str]
) -> tuple[int | None, ...]:
    """Return where aligned words of ``old`` are in ``new``, at most its last one."""
    places, last = carry_over(old, new), len(new) - 1
    return tuple(None if word is None else min(places[word], last) for word in aligned)


def _bare(word: str) -> str:
    """Drop case and punctuation, which change as the audio grows."""
    return "".join(char for char in word.casefold() if char.isalnum()) or word
