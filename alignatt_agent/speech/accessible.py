"""Which words of the open utterance a policy may rely on."""

from __future__ import annotations

from dataclasses import replace

from alignatt_agent.speech.hypothesis import ROUNDING_S
from alignatt_agent.types import Access, SpeechUpdate


def with_access(update: SpeechUpdate, access: Access) -> SpeechUpdate:
    """Return ``update`` with the accessible words of ``access``."""
    wanted = access.hold_back_ms / 1000 - ROUNDING_S
    ready = update.settled + sum(over >= wanted for over in update.over_s)
    if access.stable_only:
        ready = min(ready, update.stable)
    return replace(update, live=replace(update.live, accessible=ready))
