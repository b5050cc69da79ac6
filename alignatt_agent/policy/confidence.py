"""Confidence: what the model is sure of is emitted."""

from __future__ import annotations

from alignatt_agent.types import NO_CONTEXT, Decision, Draft, DraftContext, Gate, StopReason


class Confidence:
    """Accepts the longest draft prefix whose tokens are all probable enough.

    Args:
        tau: lowest probability that a token may have; 0 accepts any.
    """

    def __init__(self, tau: float) -> None:
        self._tau = tau

    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Stop before the first token of ``draft`` that is less probable; ``frontier`` is not used.

        Raises:
            ValueError: the draft does not say how probable each of its tokens is.
        """
        if len(draft.probabilities) != len(draft.token_ids):
            raise ValueError(
                f"expected the probability of every drafted token, got {len(draft.probabilities)} "
                f"for {len(draft.token_ids)} tokens: draft with a readout that asks for them"
            )
        for accepted, probability in enumerate(draft.probabilities):
            if probability < self._tau:
                return Decision(accepted, StopReason.UNSURE)
        return Decision(len(draft.token_ids), StopReason.DRAFT_END)

    def gate(self, frontier: int) -> Gate | None:
        """None: attention does not tell how sure the model is."""
        return None
