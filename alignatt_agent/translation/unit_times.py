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
    peaks = head_mean(draft.rows.source).argmax(axis=1)
    return tuple(prompt.token_word[int(peak)] for peak in peaks)


def spans(
    owners: Sequence[Sequence[int]], places: Sequence[int], words: Sequence[Word]
) -> tuple[SourceSpan, ...]:
    """Return the time of each unit, from its first source word to its last source word.

    ``owners`` lists the tokens of each unit; ``places`` lists the source word of each token.
    """
    found = ([words[places[token]] for token in tokens] for tokens in owners)
    return tuple(SourceSpan(min(w.start for w in mine), max(w.end for w in mine)) for mine in found)


def spread(
    count: int, last: tuple[float, float], begin: float, end: float
) -> tuple[SourceSpan, ...]:
    """Divide the time between ``begin`` and ``end`` that has no units yet into ``count`` parts.

    ``last`` is the time of the previous unit. If that time reaches ``end``, the sentence precedes
    words with emitted units. All units then share this time: starts and ends never decrease.
    """
    since, until = last
    if end <= until:
        step = (until - since) / (count + 1)
        return tuple(SourceSpan(since + k * step, until, True) for k in range(1, count + 1))
    begin = max(begin, until) if begin < end else until
    step = (end - begin) / max(1, count)
    return tuple(SourceSpan(begin + k * step, begin + (k + 1) * step, True) for k in range(count))
