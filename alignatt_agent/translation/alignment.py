"""Update the source words of accepted tokens when words are revised or a sentence is closed."""

from collections.abc import Sequence
from difflib import SequenceMatcher

from alignatt_agent.translation.units import UnitDecoder, is_punctuation
from alignatt_agent.types.running_text import bare, common_prefix

Ids = tuple[int, ...]
Aligned = tuple[int | None, ...]
"""The source word of every accepted token, or ``None`` if unknown."""


def carry_over(old: Sequence[str], new: Sequence[str]) -> list[int]:
    """Return the position in ``new`` of every word of ``old``; positions never decrease.

    Words beyond ``new`` map to successive positions past its end: a closed sentence is the
    beginning of the earlier live words, so the remaining words belong to the next sentence.
    """
    places: list[int] = []
    one, two = ([bare(word) or word for word in words] for words in (old, new))
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, one, two, autojunk=False).get_opcodes():
        for place in range(j1, j1 + i2 - i1):
            inside = tag == "equal" or i2 == len(old)
            places.append(place if inside else min(place, max(j1, j2 - 1)))
    return places


def realigned(aligned: Aligned, old: Sequence[str], new: Sequence[str]) -> Aligned:
    """Map aligned words of ``old`` to positions in ``new``, at most to the last word of ``new``."""
    places, last = carry_over(old, new), len(new) - 1
    return tuple(None if word is None else min(places[word], last) for word in aligned)


def first_of_next(units: UnitDecoder, accepted: Ids, aligned: Aligned, length: int) -> int:
    """Return the number of accepted tokens that translate the first ``length`` source words.

    Single peaks can be wrong, so the split is the last unit boundary that contradicts the fewest
    peaks. A closing mark never begins the next sentence.
    """
    beyond = [word is not None and word >= length for word in aligned]
    if not any(beyond):
        return len(aligned)
    inside = [word is not None and word < length for word in aligned]
    cuts = units.boundaries(accepted)
    best = min(reversed(cuts), key=lambda cut: sum(beyond[:cut]) + sum(inside[cut:]))
    for cut in cuts[cuts.index(best) + 1 :]:
        if not is_punctuation("".join(units.units(accepted[:best], accepted[best:cut]))):
            break
        best = cut
    return best


def repeated_of(units: UnitDecoder, kept: Ids, rest: Ids, finish: Ids) -> int:
    """Return the number of ``rest`` tokens, in whole units, that ``finish`` repeats."""
    same = common_prefix(rest, finish)
    cuts = units.boundaries(kept + rest, len(kept))
    return max((cut - len(kept) for cut in cuts if cut - len(kept) <= same), default=0)
