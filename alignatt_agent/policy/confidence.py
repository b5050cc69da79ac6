"""Confidence: what the model is sure of is emitted."""

from typing import ClassVar, Literal

from pydantic import Field

from alignatt_agent.policy.base import Policy
from alignatt_agent.types import NO_CONTEXT, Decision, Draft, DraftContext, StopReason


class Confidence(Policy):
    """Accepts the longest draft prefix whose tokens are all probable enough.

    Attributes:
        tau_prob: lowest probability that a token may have; 0 accepts any.
    """

    reads: ClassVar[Literal["tokens", "rows", "probabilities"]] = "probabilities"
    name: Literal["confidence"] = "confidence"
    tau_prob: float = Field(default=0.5, ge=0, le=1)

    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Stop before the first less probable token of ``draft``; ``frontier`` is not used."""
        if len(draft.probabilities) != len(draft.token_ids):
            raise ValueError(
                f"expected the probability of every drafted token, got {len(draft.probabilities)} "
                f"for {len(draft.token_ids)} tokens: draft with a readout that asks for them"
            )
        for accepted, probability in enumerate(draft.probabilities):
            if probability < self.tau_prob:
                return Decision(accepted, StopReason.UNSURE)
        return Decision(len(draft.token_ids), StopReason.DRAFT_END)
