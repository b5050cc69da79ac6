"""Local agreement: what successive drafts have in common is stable."""

from __future__ import annotations

from itertools import takewhile

from alignatt_agent.types import NO_CONTEXT, Decision, Draft, DraftContext, Gate, StopReason


def agreed(draft: Draft, context: DraftContext, n: int) -> int:
    """Return how many tokens the last ``n`` drafts begin with, ``draft`` being one of them."""
    earlier = context.earlier[: n - 1]
    if len(earlier) < n - 1:
        return 0
    together = zip(draft.token_ids, *earlier, strict=False)
    return sum(1 for _ in takewhile(lambda tokens: len(set(tokens)) == 1, together))


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
        accepted = agreed(draft, context, self._n)
        whole = accepted == len(draft.token_ids)
        return Decision(accepted, StopReason.DRAFT_END if whole else StopReason.DISAGREEMENT)

    def gate(self, frontier: int) -> Gate | None:
        """None: rows do not tell where drafts differ."""
        return None
