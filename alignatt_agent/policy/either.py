"""Accept what a strict gate accepts, or what successive drafts agree on."""

from __future__ import annotations

from itertools import takewhile
from typing import Literal, Self

from pydantic import Field, model_validator

from alignatt_agent.policy.alignatt import AlignAtt
from alignatt_agent.policy.rivals import agreed
from alignatt_agent.policy.rows import head_mean
from alignatt_agent.types import NO_CONTEXT, Decision, Draft, DraftContext, StopReason


class AlignAttOrAgreement(AlignAtt):
    """Accepts the longer of two prefixes: that of a strict gate, and that of agreement.

    Agreement accepts wrong tokens that recur in successive drafts, and the gate accepts wrong
    tokens that attend to accessible words. With a strict margin, such tokens are rare. Rows are not
    filtered by default.

    Attributes:
        drafts: number of successive drafts that must agree on tokens that the gate rejects.
        border_margin: margin of the gate (see ``alignatt``), for tokens of any draft.
        agreed_margin: margin for tokens on which the drafts agree; at least ``border_margin``.
        share: minimum share of the attention on the source that the tokens before the gate's border
            receive; 0 compares the position of the peak with the border instead.
    """

    name: Literal["alignatt_or_agreement"] = "alignatt_or_agreement"  # type: ignore[assignment]
    drafts: int = Field(default=3, ge=2)
    normalize: Literal["zscore", "none"] = "none"
    median_width: int = Field(default=1, ge=1)
    border_margin: int = Field(default=-8, ge=-16, le=16)
    agreed_margin: int = Field(default=2, ge=-16, le=16)
    share: float = Field(default=0.0, ge=0, le=1)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.agreed_margin < self.border_margin:
            raise ValueError(
                f"agreed_margin {self.agreed_margin} is less than border_margin "
                f"{self.border_margin}: expected at least as much, because agreement accepts more"
            )
        return self

    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Accept the longer prefix; tokens beyond ``agreed_margin`` are not read."""
        if not draft.token_ids:
            return Decision(0, StopReason.DRAFT_END)
        scan, reason = self._scanned(draft, frontier)
        closed = reason is not None
        possible = len(scan.peaks) - closed
        gated = self._gated(draft, scan.peaks[:possible], frontier)
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

    def _gated(self, draft: Draft, peaks: list[int], frontier: int) -> int:
        """Return the number of leading tokens that the strict gate accepts."""
        border = max(0, frontier + self.border_margin)
        if not self.share:
            return sum(1 for _ in takewhile(lambda peak: peak < border, peaks))
        assert draft.rows is not None
        rows = head_mean(draft.rows.source[: len(peaks)])
        # Most mass is elsewhere: in the paper's probes, 83 % is on the prompt and the draft.
        before = rows[:, :border].sum(axis=1) >= self.share * rows.sum(axis=1)
        if before.all():
            return len(peaks)
        # The first minimum is the first token that fails.
        return int(before.argmin())

    def edge(self, frontier: int) -> int:
        """Return the first source position at which every token is rejected."""
        return max(0, frontier + self.agreed_margin)

    def alone(self) -> AlignAtt:
        """Return the strict gate, which needs no earlier drafts."""
        shared = {key: getattr(self, key) for key in AlignAtt.model_fields if key != "name"}
        return AlignAtt(**{**shared, "drafts": 1})
