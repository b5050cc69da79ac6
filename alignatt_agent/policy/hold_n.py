"""Hold-n: the last units of a draft are the ones that change."""

from typing import Literal

from pydantic import Field

from alignatt_agent.policy.base import Policy
from alignatt_agent.types import NO_CONTEXT, Decision, Draft, DraftContext, StopReason


class HoldN(Policy):
    """Accepts a draft without its last units (Liu et al., Interspeech 2020).

    Attributes:
        n: stability units to hold back.
    """

    name: Literal["hold_n"] = "hold_n"
    n: int = Field(default=1, ge=0)

    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Accept all units of ``draft`` but the last ones; ``frontier`` is not used."""
        ends = (0, *context.unit_ends())
        accepted = ends[max(0, len(ends) - 1 - self.n)]
        return Decision(accepted, StopReason.HELD_BACK if self.n else StopReason.DRAFT_END)
