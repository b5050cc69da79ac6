"""The policy without a gate: the baseline every gate has to beat."""

from typing import Literal

from alignatt_agent.policy.base import Policy
from alignatt_agent.policy.rows import head_mean, source_mass
from alignatt_agent.types import NO_CONTEXT, Decision, Draft, DraftContext, StopReason


class EmitAll(Policy):
    """Accepts whole drafts; peaks are raw head-mean ones and only there when rows are."""

    name: Literal["none"] = "none"

    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Accept every token of ``draft``; ``frontier`` is used for the diagnostics only."""
        accepted = len(draft.token_ids)
        if draft.rows is None or not accepted:
            return Decision(accepted, StopReason.DRAFT_END)
        mean_rows = head_mean(draft.rows.source)
        accessible, _ = source_mass(mean_rows, frontier)
        peaks = mean_rows.argmax(axis=1)
        return Decision(
            accepted,
            StopReason.DRAFT_END,
            tuple(int(peak) for peak in peaks),
            tuple(float(mass) for mass in accessible),
        )
