"""Local agreement: what successive drafts have in common is stable."""

from __future__ import annotations

from itertools import takewhile

from alignatt_agent.nouns import NO_CONTEXT, Decision, Draft, DraftContext, Gate, StopReason


class LocalAgreement:
    """Accepts the common prefix of ``n`` successive drafts (Liu et al., Interspeech 2020).

    Only drafts of different sources count: a source that did not change is drafted the same way
    again, which shows nothing.

    Args:
        n: drafts that have to agree, the current one included; at least 2.

    Raises:
        ValueError: ``n`` is less than 2.
    """

    def __init__(self, n: int = 2) -> None:
        if n < 2:
            raise ValueError(f"local agreement needs at least n = 2 drafts, got {n}")
        self._n = n

    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Accept what the drafts before this one agree with; ``frontier`` is not used."""
        earlier = context.earlier[: self._n - 1]
        if len(earlier) < self._n - 1:
            return Decision(0, StopReason.DISAGREEMENT)
        together = zip(draft.token_ids, *earlier, strict=False)
        accepted = sum(1 for _ in takewhile(lambda tokens: len(set(tokens)) == 1, together))
        whole = accepted == len(draft.token_ids)
        return Decision(accepted, StopReason.DRAFT_END if whole else StopReason.DISAGREEMENT)

    def gate(self, frontier: int) -> Gate | None:
        """None: rows do not tell where drafts differ."""
        return None
