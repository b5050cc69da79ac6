"""Estimate word timestamps without an aligner, from the first hypothesis with each word."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import accumulate

from alignatt_agent.speech.hypothesis import Hypothesis
from alignatt_agent.speech.word_times import Span, fill_gaps
from alignatt_agent.types import Word
from alignatt_agent.types.running_text import bare, common_prefix

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
    old, new = [bare(word.text) for word in tail.words], [bare(text) for text in texts]
    spoken = accumulate((LETTER_S * len(word) for word in reversed(new[1:-1])), initial=0.0)
    bounds = [*reversed([now - seconds for seconds in spoken]), now + GUESSED_S][-len(new) :]
    known = tail.ends[: common_prefix(old, new)]
    ends = [*map(min, known, bounds), *bounds[len(known) :]]
    return _spread(tail.words, old, new, max(start, before), start, now), ends


def _spread(
    words: Sequence[Word], old: list[str], new: list[str], begin: float, start: float, now: float
) -> list[Span]:
    """Keep the times of unchanged words, and spread the last words from ``begin`` to ``now``."""
    spans: list[Span | None] = [None] * len(new)
    stay = follows = 0
    for at, to, size in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
        for k in range(size):
            spans[to + k] = (words[at + k].start, words[at + k].end)
            stay, follows = to + k + 1, at + k + 1
    filled = fill_gaps(spans[:stay], new, now, start)
    if follows < len(words):  # different words were recognized there
        begin = words[follows].start
    begin = max(begin, filled[-1][1] if filled else start)
    found = filled + fill_gaps(spans[stay:], new[stay:], now, begin)
    for k in range(len(found) - 2, -1, -1):
        (left, right), (later, end) = found[k : k + 2]
        if right <= left:  # no time is left, e.g. for a repeated word: take half of the next word's
            left = max(left, later)
            found[k : k + 2] = (left, (left + end) / 2), ((left + end) / 2, end)
    return found
