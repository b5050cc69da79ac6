"""Other policies for comparison with the gate, each in its simplest form."""

import math
from typing import ClassVar, Literal

from pydantic import Field

from alignatt_agent.policy.base import Policy, Reads, Texts
from alignatt_agent.policy.rows import head_mean
from alignatt_agent.types import NO_CONTEXT, Decision, Draft, DraftContext, StopReason

_HELD_BACK: Texts = {StopReason.HELD_BACK: ("waiting a few words, in case the sentence changes",)}

DISAGREEMENT: Texts = {StopReason.DISAGREEMENT: ("not sure yet: the previous draft was different",)}


def agreed(draft: Draft, context: DraftContext, drafts: int) -> int:
    """Return the length of the common prefix of the last ``drafts`` drafts, including this one."""
    earlier = context.earlier[: drafts - 1]
    # The first drafts of a sentence have too few predecessors and are held back.
    if len(earlier) < drafts - 1:
        return 0
    common = 0
    # The shortest draft ends the comparison.
    for tokens in zip(draft.token_ids, *earlier, strict=False):
        if len(set(tokens)) > 1:
            break
        common += 1
    return common


class LocalAgreement(Policy):
    """Accepts the common prefix of successive drafts (Liu et al., Interspeech 2020).

    Only drafts of different sources are compared; an unchanged source yields the same draft.

    Attributes:
        drafts: number of drafts that must agree, including the current draft.
    """

    reasons: ClassVar[Texts] = DISAGREEMENT
    name: Literal["local_agreement"] = "local_agreement"
    drafts: int = Field(default=2, ge=2)

    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Accept the tokens that the last drafts agree on; ``frontier`` is not used."""
        accepted = agreed(draft, context, self.drafts)
        if accepted == len(draft.token_ids):
            return Decision(accepted, StopReason.DRAFT_END)
        return Decision(accepted, StopReason.DISAGREEMENT)


class Confidence(Policy):
    """Accepts the longest draft prefix whose tokens all reach a minimum probability.

    Attributes:
        tau_prob: minimum probability of a token; 0 accepts any token.
    """

    reads: ClassVar[Reads] = "probabilities"
    reasons: ClassVar[Texts] = {StopReason.UNSURE: ("not sure of “{word}” yet",)}
    name: Literal["confidence"] = "confidence"
    tau_prob: float = Field(default=0.5, ge=0, le=1)

    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Stop before the first token below ``tau_prob``; ``frontier`` is not used."""
        if len(draft.probabilities) != len(draft.token_ids):
            raise ValueError(
                f"expected one probability per drafted token, got {len(draft.probabilities)} for "
                f"{len(draft.token_ids)} tokens: draft with a readout that requests them"
            )
        for accepted, probability in enumerate(draft.probabilities):
            if probability < self.tau_prob:
                return Decision(accepted, StopReason.UNSURE)
        return Decision(len(draft.token_ids), StopReason.DRAFT_END)


class HoldN(Policy):
    """Accepts all units of a draft except the last ``n`` units (Liu et al., Interspeech 2020).

    Attributes:
        n: number of stability units to hold back.
    """

    reasons: ClassVar[Texts] = _HELD_BACK
    name: Literal["hold_n"] = "hold_n"
    n: int = Field(default=1, ge=0)

    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Accept all units of ``draft`` except the last ``n``; ``frontier`` is not used."""
        # Index k is the end of k units.
        ends = (0, *context.unit_ends())
        accepted = ends[max(0, len(ends) - 1 - self.n)]
        if self.n == 0:
            return Decision(accepted, StopReason.DRAFT_END)
        return Decision(accepted, StopReason.HELD_BACK)


class EmitAll(Policy):
    """Accepts whole drafts, as a baseline; the reported attention peaks are not filtered."""

    name: Literal["none"] = "none"

    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Accept every token of ``draft``; ``frontier`` is used only for diagnostics."""
        accepted = len(draft.token_ids)
        # The peaks do not gate; they show which tokens translate words of the next sentence.
        if draft.rows is None or not accepted:
            return Decision(accepted, StopReason.DRAFT_END)
        mean_rows = head_mean(draft.rows.source)
        peaks = tuple(map(int, mean_rows.argmax(axis=1)))
        masses = tuple(map(float, mean_rows[:, :frontier].sum(axis=1)))
        return Decision(accepted, StopReason.DRAFT_END, peaks, masses)


class WaitK(Policy):
    """Emits one unit after ``k`` source words, and ``rate`` units for each additional word.

    This is the fixed policy of Ma et al. (ACL 2019) with its catch-up rate, for a model that was
    not trained for this policy.

    Attributes:
        k: number of source words before the first unit.
        rate: number of units per source word, e.g. 1.5 if translations are longer.
    """

    reasons: ClassVar[Texts] = _HELD_BACK
    name: Literal["wait_k"] = "wait_k"
    k: int = Field(default=3, ge=1)
    rate: float = Field(default=1.0, gt=0)

    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Accept as many units of ``draft`` as are due; ``frontier`` is not used."""
        # ``k`` words permit ``rate`` units, and every further word ``rate`` more.
        permitted = math.floor(self.rate * (context.heard - self.k + 1))
        # Negative before ``k`` words, and after the recognizer replaced words by fewer words.
        due = permitted - context.written()
        ends = (0, *context.unit_ends())
        accepted = ends[max(0, min(due, len(ends) - 1))]
        if accepted == len(draft.token_ids):
            return Decision(accepted, StopReason.DRAFT_END)
        return Decision(accepted, StopReason.HELD_BACK)
