"""Where the translation of a closed sentence ends among emitted tokens."""

from collections.abc import Sequence

from alignatt_agent.translation.units import UnitDecoder, is_punctuation
from alignatt_agent.types.running_text import common_prefix


def first_of_next(
    units: UnitDecoder, accepted: Sequence[int], aligned: Sequence[int | None], length: int
) -> int:
    """Return how many accepted tokens translate the first ``length`` source words.

    Single peaks err, so the split is the last of the unit boundaries that contradict the fewest of
    them. A closing mark never opens the next sentence.

    Args:
        units: reads token ids.
        accepted: emitted token ids.
        aligned: the source word of each, where it is known.
        length: source words of the sentence.
    """
    beyond = [word is not None and word >= length for word in aligned]
    if not any(beyond):
        return len(aligned)
    inside = [word is not None and word < length for word in aligned]
    cuts = units.boundaries(accepted)
    best = min(reversed(cuts), key=lambda cut: sum(beyond[:cut]) + sum(inside[cut:]))
    for cut in cuts[cuts.index(best) + 1 :]:
        if not is_punctuation("".join(units.units((), accepted[best:cut]))):
            break
        best = cut
    return best


def repeated_of(
    units: UnitDecoder, kept: tuple[int, ...], rest: tuple[int, ...], finish: tuple[int, ...]
) -> int:
    """Return how many ``rest`` tokens after ``kept`` ``finish`` repeats, in whole units."""
    same = common_prefix(rest, finish)
    cuts = units.boundaries(kept + rest)
    return max((cut - len(kept) for cut in cuts if 0 <= cut - len(kept) <= same), default=0)
