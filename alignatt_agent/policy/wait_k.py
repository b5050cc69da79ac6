"""Wait-k: the translation stays a fixed number of words behind the speaker."""

from __future__ import annotations

import math

from alignatt_agent.types import NO_CONTEXT, Decision, Draft, DraftContext, Gate, StopReason


class WaitK:
    """Writes one unit after ``k`` heard words and ``rate`` units for each further one.

    The fixed policy of Ma et al. (ACL 2019) with its catch-up rate, on drafts of a model that was
    not trained for it.

    Args:
        k: words of an utterance to wait for; at least 1.
        rate: units written for every heard word, e.g. 1.5 where translations are longer.

    Raises:
        ValueError: ``k`` is less than 1.
    """

    def __init__(self, k: int, rate: float = 1.0) -> None:
        if k < 1:
            raise ValueError(f"wait-k needs k of at least 1, got {k}")
        self._k, self._rate = k, rate

    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Accept as many units of ``draft`` as are due; ``frontier`` is not used."""
        due = math.floor(self._rate * (context.heard - self._k + 1)) - context.written()
        ends = (0, *context.unit_ends())
        accepted = ends[max(0, min(due, len(ends) - 1))]
        whole = accepted == len(draft.token_ids)
        return Decision(accepted, StopReason.DRAFT_END if whole else StopReason.HELD_BACK)

    def gate(self, frontier: int) -> Gate | None:
        """None: how much is due shows only in units."""
        return None
