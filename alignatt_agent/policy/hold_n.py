"""Hold-n: the last units of a draft are the ones that change."""

from __future__ import annotations

from alignatt_agent.types import NO_CONTEXT, Decision, Draft, DraftContext, Gate, StopReason


class HoldN:
    """Accepts a draft without its last ``n`` units (Liu et al., Interspeech 2020).

    Args:
        n: stability units to hold back.
    """

    def __init__(self, n: int) -> None:
        self._n = n

    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Accept all units of ``draft`` but the last ones; ``frontier`` is not used."""
        ends = (0, *context.unit_ends())
        accepted = ends[max(0, len(ends) - 1 - self._n)]
        return Decision(accepted, StopReason.HELD_BACK if self._n else StopReason.DRAFT_END)

    def gate(self, frontier: int) -> Gate | None:
        """None: only the end of a draft tells what its last units are."""
        return None
