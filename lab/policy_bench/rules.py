"""Acceptance rules of the bench: the product's policies, and rules that only the lab has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import yaml
from pydantic import Field

from alignatt_agent.policy import POLICIES, AlignAtt, Policy
from alignatt_agent.policy.base import Reads
from alignatt_agent.policy.rows import head_mean
from alignatt_agent.types import NO_CONTEXT, Decision, Draft, DraftContext, StopReason
from lab.curves.oracle import Oracle
from lab.policy_bench.replay import Build, Sentence

_LEAST_SUM = 1e-12
"""Prevents a division by zero if a token has no attention on the source."""


def shares(draft: Draft, edge: int) -> list[float]:
    """Return, for each token, the attention before ``edge`` over that on the whole source."""
    if draft.rows is None:
        return []
    token_shares: list[float] = []
    for row in head_mean(draft.rows.source):
        total = max(row.sum(), _LEAST_SUM)
        token_shares.append(float(row[:edge].sum() / total))
    return token_shares


class Share(AlignAtt):
    """Accepts tokens whose attention on the source lies mostly before the border.

    Attributes:
        share: minimum share of the attention on the source that lies before the border.
    """

    name: Literal["share"] = "share"  # type: ignore[assignment]
    share: float = Field(default=0.8, ge=0, le=1)

    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Stop before the first token with a smaller share."""
        token_shares = shares(draft, self.edge(frontier))
        accepted = 0
        for share in token_shares:
            if share < self.share:
                break
            accepted += 1
        return Decision(accepted, StopReason.SOURCE_FRONTIER)


class Probable(AlignAtt):
    """Uses a looser margin for tokens with a high probability.

    Attributes:
        least: minimum probability of a probable token.
        probable_margin: border margin of probable tokens; ``border_margin`` applies to others.
    """

    reads: ClassVar[Reads] = "probabilities"
    name: Literal["probable"] = "probable"  # type: ignore[assignment]
    least: float = Field(default=0.8, ge=0, le=1)
    probable_margin: int = 0

    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Stop before the first token whose peak is beyond its own margin."""
        peaks: list[int] = []
        if draft.rows is not None:
            peaks = head_mean(draft.rows.source).argmax(axis=1).tolist()
        accepted = 0
        for peak, probability in zip(peaks, draft.probabilities, strict=True):
            margin = self.border_margin
            if probability >= self.least:
                margin = self.probable_margin
            if peak >= max(0, frontier + margin):
                break
            accepted += 1
        return Decision(accepted, StopReason.SOURCE_FRONTIER)


CLASSES: dict[str, type[Policy]] = {
    **POLICIES,
    "share": Share,
    "probable": Probable,
}

_FILE = Path(__file__).with_suffix(".yaml")
RULES: dict[str, dict[str, Any]] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
"""Settings of each rule, by the label that tables show."""


def build_of(label: str, gate: Mapping[str, Any]) -> Build:
    """Return a function that creates the policy of a rule for a sentence.

    ``gate`` contains the settings that all rules with attention rows share.
    """
    rule = RULES[label]
    kind = CLASSES[rule["name"]]
    shared = {key: value for key, value in gate.items() if key in kind.model_fields}

    def build(sentence: Sentence) -> Policy:
        settings = shared | rule
        if "sentence" in kind.model_fields:
            settings["sentence"] = sentence
        return kind(**settings)

    return build


def oracle_of(offline: tuple[int, ...]) -> Build:
    """Return a function that creates the oracle of a sentence with this off-line translation."""

    def build(sentence: Sentence) -> Policy:
        sentence.offline = offline
        return Oracle(sentence=sentence)

    return build
