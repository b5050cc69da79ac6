"""Compute the word timestamps of a hypothesis from the items of the forced aligner.

Aligners split and normalize text themselves, so items are matched to words by letters and digits,
never by index.
"""

import math
from collections.abc import Sequence
from difflib import SequenceMatcher

from alignatt_agent.text.running_text import bare
from alignatt_agent.types.engines import AlignedItem

Span = tuple[float, float]


def time_words(words: Sequence[str], items: Sequence[AlignedItem], duration: float) -> list[Span]:
    """Return the start and end of every word, in seconds from the start of the audio.

    Words that match an item get its timestamps. Split or joined words are distributed over their
    items by character counts. Words without an item share the gap around them. Times are not
    negative and never decrease; the end of an unfinished word may exceed ``duration``.
    """
    finite_items = [
        aligned for aligned in items if math.isfinite(aligned.start) and math.isfinite(aligned.end)
    ]
    word_letters = [bare(word) for word in words]
    item_letters = [bare(aligned.text) for aligned in finite_items]
    spans: list[Span | None] = [None] * len(words)
    matcher = SequenceMatcher(None, word_letters, item_letters, autojunk=False)
    for tag, word_begin, word_end, item_begin, item_end in matcher.get_opcodes():
        if tag not in ("equal", "replace"):
            continue
        matching_items = finite_items[item_begin:item_end]
        # Words in equal number correspond even if their letters differ, as in ``2`` and ``two``.
        if word_end - word_begin == item_end - item_begin:
            item_spans = [(aligned.start, aligned.end) for aligned in matching_items]
        else:
            item_spans = _lay_over(word_letters[word_begin:word_end], matching_items)
        spans[word_begin:word_end] = item_spans
    return _in_order(fill_gaps(spans, words, duration))


def _in_order(spans: Sequence[Span]) -> list[Span]:
    """Raise times that are negative or lower than an earlier time."""
    ordered: list[Span] = []
    latest = 0.0
    for start, end in spans:
        start = max(latest, start)
        latest = max(start, end)
        ordered.append((start, latest))
    return ordered


def _lay_over(words: Sequence[str], items: Sequence[AlignedItem]) -> list[Span]:
    """Distribute ``words`` over a different number of ``items``, by character counts."""
    sizes = [_size(bare(aligned.text)) for aligned in items]
    scale = sum(sizes) / _total_size(words)
    spans: list[Span] = []
    begin = 0.0
    for word in words:
        end = begin + _size(word) * scale
        # A border belongs to the item after it for a start, and to the item before it for an end.
        start_s = _time_at(items, sizes, begin, side=1e-6)
        end_s = _time_at(items, sizes, end, side=-1e-6)
        spans.append((start_s, end_s))
        begin = end
    return spans


def _time_at(
    items: Sequence[AlignedItem], sizes: Sequence[int], position: float, side: float
) -> float:
    """Return the time of a character position; ``side`` selects the item at a border."""
    for aligned, size in zip(items, sizes, strict=True):
        if position + side < size:
            share = max(0.0, position / size)
            return aligned.start + share * (aligned.end - aligned.start)
        position -= size
    return items[-1].end


def fill_gaps(
    spans: Sequence[Span | None], words: Sequence[str], end: float, begin: float = 0.0
) -> list[Span]:
    """Return all spans; words without a span divide the gap around them by character counts."""
    filled: list[Span] = []
    gap_begin = begin
    for index, span in enumerate(spans):
        if span is None:
            gap_words, next_start = _gap(spans, words, index, end)
            gap_end = max(gap_begin, next_start)
            # The words before this one have already taken their share of the gap.
            share = _size(words[index]) / _total_size(gap_words)
            span = (gap_begin, gap_begin + share * (gap_end - gap_begin))
        filled.append(span)
        gap_begin = span[1]
    return filled


def _gap(
    spans: Sequence[Span | None], words: Sequence[str], begin: int, end: float
) -> tuple[Sequence[str], float]:
    """Return the words from ``begin`` to the next one with a span, and the start of that span.

    ``end`` is the start if no word with a span follows.
    """
    for index in range(begin, len(spans)):
        span = spans[index]
        if span is not None:
            return words[begin:index], span[0]
    return words[begin : len(spans)], end


def _size(word: str) -> int:
    """Return the number of characters of a word, at least 1, because marks also take time."""
    return max(1, len(word))


def _total_size(words: Sequence[str]) -> int:
    return sum(_size(word) for word in words)
