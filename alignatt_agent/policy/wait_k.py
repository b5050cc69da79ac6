"""Wait-k: the translation stays a fixed number of words behind the speaker."""

import math
from typing import ClassVar, Literal

from pydantic import Field

from alignatt_agent.policy.base import Policy
from alignatt_agent.types import NO_CONTEXT, Decision, Draft, DraftContext, StopReason


class WaitK(Policy):
    """Writes one unit after ``k`` heard words and ``rate`` units for each further one.

    The fixed policy of Ma et al. (ACL 2019) with its catch-up rate, on drafts of a model that was
    not trained for it.

    Attributes:
        k: words of an utterance to wait for.
        rate: units written for every heard word, e.g. 1.5 where translations are longer.
    """

    renamed: ClassVar[dict[str, str]] = {"n": "policy.k"}
    name: Literal["wait_k"] = "wait_k"
    k: int = Field(default=3, ge=1)
    rate: float = Field(default=1.0, gt=0)

    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Accept as many units of ``draft`` as are due; ``frontier`` is not used."""
        due = math.floor(self.rate * (context.heard - self.k + 1)) - context.written()
        ends = (0, *context.unit_ends())
        accepted = ends[max(0, min(due, len(ends) - 1))]
        whole = accepted == len(draft.token_ids)
        return Decision(accepted, StopReason.DRAFT_END if whole else StopReason.HELD_BACK)
