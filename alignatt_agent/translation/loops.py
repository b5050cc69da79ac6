"""Cut translations in which the model repeats itself endlessly."""

from collections.abc import Sequence

from alignatt_agent.text.repetition import find_loop, most_copies
from alignatt_agent.text.running_text import bare, words_and_marks
from alignatt_agent.translation.units import UnitDecoder


def loop_cut(
    units: UnitDecoder, ids: Sequence[int], source: Sequence[str], ended: bool
) -> int | None:
    """Return how many ``ids`` of a translation remain, in whole units, or ``None`` without a loop.

    A loop is found in words, because one word may be several tokens. The translation keeps as many
    copies of the repeated part as the speaker said; ``source`` contains the speaker's words. Unless
    the translation has ``ended``, its last word may be incomplete.
    """
    text = units.text(ids)
    spans = words_and_marks(text)
    parts = [text[begin:end] for begin, end in spans]
    if parts and not ended:
        ends_in_word = bool(bare(parts[-1]))
        if ends_in_word:
            parts.pop()
    loop = find_loop(parts)
    if loop is None:
        return None
    # A speaker who repeats a part is translated with all copies.
    more_copies = most_copies(source) - 1
    remaining = loop.first_end + more_copies * loop.size
    if remaining >= len(parts):
        return None
    _, end = spans[remaining - 1]
    for cut in units.boundaries(ids):
        text_until_cut = units.text(ids[:cut])
        if len(text_until_cut.rstrip()) >= end:
            return cut
    return len(ids)
