"""Local agreement: the common prefix of successive drafts is stable."""

from itertools import takewhile
from typing import ClassVar, Literal

from pydantic import Field

from alignatt_agent.policy.base import Policy, Texts
from alignatt_agent.types import NO_CONTEXT, Decision, Draft, DraftContext, StopReason

DISAGREEMENT: Texts = {
    StopReason.DISAGREEMENT: ("not sure yet: a moment ago it wanted to say something else",)
}


def agreed(draft: Draft, context: DraftContext, drafts: int) -> int:
    """Return the length of the common prefix of the last ``drafts`` drafts, including this one."""
    earlier = context.earlier[: drafts - 1]
    if len(earlier) < drafts - 1:
        return 0
    together = zip(draft.token_ids, *earlier, strict=False)
    return sum(1 for _ in takewhile(lambda tokens: len(set(tokens)) == 1, together))


class LocalAgreement(Policy):
    """Accepts the common prefix of successive drafts (Liu et al., Interspeech 2020).

    Only drafts of different sources count: an unchanged source gives the same draft again.

    Attributes:
        drafts: drafts that must agree, including the current one.
    """

    reasons: ClassVar[Texts] = DISAGREEMENT
    name: Literal["local_agreement"] = "local_agreement"
    drafts: int = Field(default=2, ge=2)

    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Accept the tokens that earlier drafts agree on; ``frontier`` is not used."""
        accepted = agreed(draft, context, self.drafts)
        whole = accepted == len(draft.token_ids)
        return Decision(accepted, StopReason.DRAFT_END if whole else StopReason.DISAGREEMENT)
