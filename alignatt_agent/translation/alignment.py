"""Update the source words of accepted tokens when words are revised or a sentence is closed."""

from collections.abc import Sequence
from difflib import SequenceMatcher

from alignatt_agent.text.marks import is_punctuation
from alignatt_agent.text.running_text import bare, common_prefix
from alignatt_agent.translation.units import UnitDecoder

Ids = tuple[int, ...]
Aligned = tuple[int | None, ...]
"""The source word of every accepted token, or ``None`` if unknown."""


def carry_over(old: Sequence[str], new: Sequence[str]) -> list[int]:
    """Return the position in ``new`` of every word of ``old``; positions never decrease.

    Words beyond ``new`` map to successive positions past its end: a closed sentence is the
    beginning of the earlier live words, so the remaining words belong to the next sentence.
    """
    # autojunk would ignore frequent words of long utterances.
    matcher = SequenceMatcher(None, _comparable(old), _comparable(new), autojunk=False)
    places: list[int] = []
    for tag, old_begin, old_end, new_begin, new_end in matcher.get_opcodes():
        may_pass_end = old_end == len(old)
        last_place = max(new_begin, new_end - 1)
        for offset in range(old_end - old_begin):
            place = new_begin + offset
            # If fewer words replace a part inside the sentence, its last words share one place.
            if tag != "equal" and not may_pass_end:
                place = min(place, last_place)
            places.append(place)
    return places


def realigned(aligned: Aligned, old: Sequence[str], new: Sequence[str]) -> Aligned:
    """Map aligned words of ``old`` to positions in ``new``, at most to the last word of ``new``."""
    places = carry_over(old, new)
    last = len(new) - 1
    moved: list[int | None] = []
    for word in aligned:
        if word is None:
            moved.append(None)
        else:
            moved.append(min(places[word], last))
    return tuple(moved)


def first_of_next(units: UnitDecoder, accepted: Ids, aligned: Aligned, length: int) -> int:
    """Return the number of accepted tokens that translate the first ``length`` source words.

    Single peaks can be wrong, so the split is the last unit boundary that contradicts the fewest
    peaks. A closing mark never begins the next sentence.
    """
    if all(word is None or word < length for word in aligned):
        return len(aligned)
    cuts = units.boundaries(accepted)
    split = 0
    fewest = len(aligned)
    for cut in cuts:
        count = _contradictions(aligned, cut, length)
        if count <= fewest:
            split = cut
            fewest = count
    later_cuts = cuts[cuts.index(split) + 1 :]
    for cut in later_cuts:
        next_units = units.units(accepted[:split], accepted[split:cut])
        if not is_punctuation("".join(next_units)):
            break
        split = cut
    return split


def repeated_of(units: UnitDecoder, sentence: Ids, rest: Ids, finish: Ids) -> int:
    """Return the number of ``rest`` tokens, in whole units, that ``finish`` repeats.

    ``sentence`` contains the tokens before ``rest``.
    """
    same = common_prefix(rest, finish)
    repeated = 0
    for cut in units.boundaries(sentence + rest, len(sentence)):
        length = cut - len(sentence)
        if length <= same:
            repeated = length
    return repeated


def _comparable(words: Sequence[str]) -> list[str]:
    """Return words without case and marks, which recognizers revise; marks alone are unchanged."""
    return [bare(word) or word for word in words]


def _contradictions(aligned: Aligned, split: int, length: int) -> int:
    """Return the number of peaks that a split after ``split`` tokens puts on the wrong side."""
    count = 0
    for position, word in enumerate(aligned):
        if word is None:
            continue
        peak_inside = word < length
        token_inside = position < split
        if peak_inside != token_inside:
            count += 1
    return count
