"""Compute the source times of units from the words at their tokens' attention peaks."""

from collections.abc import Sequence

from alignatt_agent.policy.rows import head_mean
from alignatt_agent.types import Draft, Prompt, SourceSpan, Word


def source_words(prompt: Prompt, draft: Draft) -> tuple[int, ...]:
    """Return the source word at the attention peak of each drafted token; empty without rows.

    Heads are averaged without a filter: normalization by earlier rows would give no peak for the
    first token of a draft.
    """
    if draft.rows is None or not draft.token_ids:
        return ()
    mean_rows = head_mean(draft.rows.source)
    peaks = mean_rows.argmax(axis=1)
    return tuple(prompt.token_word[int(peak)] for peak in peaks)


def spans(
    owners: Sequence[Sequence[int]], places: Sequence[int], words: Sequence[Word]
) -> tuple[SourceSpan, ...]:
    """Return the time of each unit, from its first source word to its last source word.

    ``owners`` lists the tokens of each unit; ``places`` lists the source word of each token.
    """
    times: list[SourceSpan] = []
    for tokens in owners:
        starts: list[float] = []
        ends: list[float] = []
        for token in tokens:
            word = words[places[token]]
            starts.append(word.start)
            ends.append(word.end)
        times.append(SourceSpan(min(starts), max(ends)))
    return tuple(times)


def spread(
    count: int, last_start: float, timed_until: float, begin: float, end: float
) -> tuple[SourceSpan, ...]:
    """Divide the time between ``begin`` and ``end`` that has no units yet into ``count`` parts.

    ``last_start`` is the start of the previous unit; speech before ``timed_until`` has units. If
    that time reaches ``end``, the sentence precedes words with emitted units. All units then share
    the time from ``last_start`` on: starts and ends never decrease.
    """
    times: list[SourceSpan] = []
    if end <= timed_until:
        # One part more than units, so that the first unit starts after the previous unit.
        step = (timed_until - last_start) / (count + 1)
        for k in range(1, count + 1):
            start = last_start + k * step
            times.append(SourceSpan(start, timed_until, interpolated=True))
        return tuple(times)
    begin = max(begin, timed_until) if begin < end else timed_until
    step = (end - begin) / max(1, count)
    for k in range(count):
        start = begin + k * step
        times.append(SourceSpan(start, begin + (k + 1) * step, interpolated=True))
    return tuple(times)
