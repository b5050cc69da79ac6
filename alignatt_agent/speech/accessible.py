"""Which words of the open utterance a policy may rely on."""

import re
from collections.abc import Sequence

from alignatt_agent.speech.hypothesis import Hypothesis
from alignatt_agent.types.running_text import common_prefix

_MARKS = re.compile(r"\W+$")


def accessible_words(tail: Hypothesis, hold_back_s: float, stable_only: bool) -> int:
    """Return how many words of the tail are accessible."""
    ready = tail.ended(hold_back_s)
    return min(ready, tail.stable) if stable_only else ready


def probably_accessible(before: Sequence[str], texts: Sequence[str], stable_only: bool) -> int:
    """Return how many of the new, still untimed words will probably be accessible.

    The last word probably continues, unless it was there before and only got its punctuation.
    """
    over = bool(before) and _MARKS.sub("", before[-1]) == _MARKS.sub("", texts[-1])
    ready = len(texts) - (not over)
    return min(ready, common_prefix(before, texts)) if stable_only else ready
