"""Accept what a strict gate accepts, or what successive drafts agree on."""

from __future__ import annotations

from itertools import takewhile
from typing import ClassVar, Literal

from pydantic import Field

from alignatt_agent.policy.alignatt import AlignAtt
from alignatt_agent.policy.rivals import agreed
from alignatt_agent.types import NO_CONTEXT, Decision, Draft, DraftContext, StopReason


class AlignAttOrAgreement(AlignAtt):
    """Accepts the longer of two prefixes: that of a strict gate, and that of agreement.

    Agreement accepts wrong tokens that recur in successive drafts, and the gate accepts wrong
    tokens that attend to accessible words. With a strict margin, such tokens are rare. Rows are not
    filtered by default.

    Attributes:
        drafts: number of successive drafts that must agree on tokens that the gate rejects.
        border_margin: margin of the gate (see ``alignatt``), for tokens of any draft; at most 0.
    """

    name: Literal["alignatt_or_agreement"] = "alignatt_or_agreement"  # type: ignore[assignment]
    drafts: int = Field(default=3, ge=2)
    normalize: Literal["zscore", "none"] = "none"
    median_width: int = Field(default=1, ge=1)
    border_margin: int = Field(default=-6, ge=-16, le=0)

    agreed_margin: ClassVar[int] = 2
    """Margin for tokens on which the drafts agree, so that an engine can end a draft early.

    On 32 German tuning sentences, the margins 0, 2 and 16 lead to the same scores
    (docs/results/real.md).
    """

    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Accept the longer prefix; tokens beyond ``agreed_margin`` are not read."""
        if not draft.token_ids:
            return Decision(0, StopReason.DRAFT_END)
        scan, reason = self._scanned(draft, frontier)
        closed = reason is not None
        possible = len(scan.peaks) - closed
        border = max(0, frontier + self.border_margin)
        gated = sum(1 for _ in takewhile(lambda peak: peak < border, scan.peaks[:possible]))
        accepted = max(gated, min(possible, agreed(draft, context, self.drafts)))
        if accepted < possible:
            reason = StopReason.DISAGREEMENT
        return Decision(
            accepted,
            reason or StopReason.DRAFT_END,
            tuple(scan.peaks),
            tuple(scan.accessible_mass),
            closed,
        )

    def edge(self, frontier: int) -> int:
        """Return the first source position at which every token is rejected."""
        return max(0, frontier + self.agreed_margin)

    def alone(self) -> AlignAtt:
        """Return the strict gate, which needs no earlier drafts."""
        shared = {key: getattr(self, key) for key in AlignAtt.model_fields if key != "name"}
        return AlignAtt(**{**shared, "drafts": 1})
