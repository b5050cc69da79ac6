"""Estimate word timestamps without an aligner, from the first hypothesis with each word."""

from collections.abc import Sequence
from difflib import SequenceMatcher

from alignatt_agent.speech.hypothesis import Hypothesis
from alignatt_agent.speech.word_times import Span, fill_gaps
from alignatt_agent.text.running_text import bare, common_prefix
from alignatt_agent.types import Word

GUESSED_S = 0.4
"""Seconds from the end of the audio to the assumed end of a new last word, which may be a guess."""

LETTER_S = 0.03
"""Minimum seconds per letter, from which the latest end of the previous word is computed."""


def first_heard(
    tail: Hypothesis, texts: Sequence[str], start: float, before: float, now: float
) -> tuple[list[Span], list[float]]:
    """Return approximate word spans, and the times by which the words had ended, in order.

    A word has ended in the first hypothesis that contains it, all earlier words, and a later word.

    Args:
        tail: the previous hypothesis.
        texts: words of the current hypothesis, at least one.
        start: beginning of the audio; all times are in seconds from the start of the stream.
        before: end of the previous hypothesis's audio.
        now: end of the audio.
    """
    old_words = [bare(word.text) for word in tail.words]
    new_words = [bare(text) for text in texts]
    ends = _latest_ends(new_words, now)
    unchanged = common_prefix(old_words, new_words)
    for index, earlier_end in enumerate(tail.ends[:unchanged]):
        ends[index] = min(earlier_end, ends[index])
    spans = _spread(
        tail.words, old_words, new_words, begin=max(start, before), start=start, now=now
    )
    return spans, ends


def _latest_ends(words: Sequence[str], now: float) -> list[float]:
    """Return the latest end of each word: the words after it have also been spoken by ``now``."""
    latest_ends = [now + GUESSED_S]
    spoken_s = 0.0
    for word in reversed(words[:-1]):
        latest_ends.append(now - spoken_s)
        spoken_s += LETTER_S * len(word)
    latest_ends.reverse()
    return latest_ends


def _spread(
    words: Sequence[Word], old: list[str], new: list[str], begin: float, start: float, now: float
) -> list[Span]:
    """Keep the times of unchanged words, and spread the last words from ``begin`` to ``now``."""
    spans: list[Span | None] = [None] * len(new)
    old_end = 0
    new_end = 0
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for old_begin, new_begin, size in matcher.get_matching_blocks():
        for offset in range(size):
            word = words[old_begin + offset]
            spans[new_begin + offset] = (word.start, word.end)
        # The last block is empty and stands behind both sequences.
        if size:
            old_end = old_begin + size
            new_end = new_begin + size
    filled = fill_gaps(spans[:new_end], new, now, start)
    # If other words were recognized there before, the new words begin with them.
    if old_end < len(words):
        begin = words[old_end].start
    unchanged_end = start
    if filled:
        unchanged_end = filled[-1][1]
    filled += fill_gaps(spans[new_end:], new[new_end:], now, max(begin, unchanged_end))
    return _with_time_for_each(filled)


def _with_time_for_each(spans: list[Span]) -> list[Span]:
    """Give each word without time, e.g. a repeated word, half of the next word's time."""
    spans = list(spans)
    for index in range(len(spans) - 2, -1, -1):
        start, end = spans[index]
        next_start, next_end = spans[index + 1]
        if end > start:
            continue
        start = max(start, next_start)
        middle = (start + next_end) / 2
        spans[index] = (start, middle)
        spans[index + 1] = (middle, next_end)
    return spans
