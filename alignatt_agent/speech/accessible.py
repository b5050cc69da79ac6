"""Which words of the open utterance a policy may rely on."""

import re
from collections.abc import Sequence
from dataclasses import replace

from alignatt_agent.speech.hypothesis import ROUNDING_S
from alignatt_agent.types import Access, SpeechUpdate
from alignatt_agent.types.running_text import common_prefix

_MARKS = re.compile(r"\W+$")


def with_access(update: SpeechUpdate, access: Access) -> SpeechUpdate:
    """Return ``update`` with the accessible words of ``access``."""
    wanted = access.hold_back_ms / 1000 - ROUNDING_S
    ready = update.settled + sum(over >= wanted for over in update.over_s)
    if access.stable_only:
        ready = min(ready, update.stable)
    return replace(update, live=replace(update.live, accessible=ready))


def probably_accessible(before: Sequence[str], texts: Sequence[str], stable_only: bool) -> int:
    """Return how many of the new, still untimed words will probably be accessible.

    The last word probably continues, unless it was there before and only got its punctuation.
    """
    over = bool(before) and _MARKS.sub("", before[-1]) == _MARKS.sub("", texts[-1])
    ready = len(texts) - (not over)
    return min(ready, common_prefix(before, texts)) if stable_only else ready
