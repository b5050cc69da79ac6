"""Compute the word timestamps of a hypothesis from the items of the forced aligner.

Aligners split and normalize text themselves, so items are matched to words by letters and digits,
never by index.
"""

import math
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import accumulate, chain, pairwise

from alignatt_agent.types.engines import AlignedItem
from alignatt_agent.types.running_text import bare

Span = tuple[float, float]


def time_words(words: Sequence[str], items: Sequence[AlignedItem], duration: float) -> list[Span]:
    """Return the start and end of every word, in seconds from the start of the audio.

    Words that match an item get its timestamps. Split or joined words are distributed over their
    items by character counts. Words without an item share the gap around them. Times are not
    negative and never decrease; the end of an unfinished word may exceed ``duration``.
    """
    items = [item for item in items if math.isfinite(item.start) and math.isfinite(item.end)]
    spans: list[Span | None] = [None] * len(words)
    ours, theirs = [bare(word) for word in words], [bare(item.text) for item in items]
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        if tag in ("equal", "replace"):
            if i2 - i1 == j2 - j1:
                spans[i1:i2] = [(item.start, item.end) for item in items[j1:j2]]
            else:
                spans[i1:i2] = _lay_over(ours[i1:i2], items[j1:j2])
    filled = chain.from_iterable(fill_gaps(spans, words, duration))
    _, *times = accumulate(filled, max, initial=0.0)
    return list(zip(times[::2], times[1::2], strict=True))


def _lay_over(words: Sequence[str], items: Sequence[AlignedItem]) -> list[Span]:
    """Distribute ``words`` over a different number of ``items``, by character counts."""
    sizes = [max(1, len(bare(item.text))) for item in items]
    lengths = [max(1, len(word)) for word in words]
    scale = sum(sizes) / sum(lengths)
    borders = accumulate((length * scale for length in lengths), initial=0.0)
    return [
        (_time_at(items, sizes, begin, 1e-6), _time_at(items, sizes, end, -1e-6))
        for begin, end in pairwise(borders)
    ]


def _time_at(
    items: Sequence[AlignedItem], sizes: Sequence[int], position: float, side: float
) -> float:
    """Return the time of a character position; ``side`` selects the item at a border."""
    for item, size in zip(items, sizes, strict=True):
        if position + side < size:
            return item.start + max(0.0, position / size) * (item.end - item.start)
        position -= size
    return items[-1].end


def fill_gaps(
    spans: Sequence[Span | None], words: Sequence[str], end: float, begin: float = 0.0
) -> list[Span]:
    """Return all spans; words without a span divide the gap around them by character counts."""
    filled: list[Span] = []
    for i, span in enumerate(spans):
        if span is not None:
            filled.append(span)
            continue
        after = next((k for k in range(i, len(spans)) if spans[k] is not None), len(spans))
        known = spans[after] if after < len(spans) else None
        left = filled[-1][1] if filled else begin
        right = max(left, known[0] if known is not None else end)
        share = max(1, len(words[i])) / sum(max(1, len(word)) for word in words[i:after])
        filled.append((left, left + share * (right - left)))
    return filled
