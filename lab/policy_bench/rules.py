"""Acceptance rules of the bench: the product's policies, and rules that only the lab has."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any, ClassVar, Literal

import yaml
from pydantic import Field

from alignatt_agent.policy import POLICIES, AlignAtt, Policy
from alignatt_agent.policy.base import Reads
from alignatt_agent.policy.rivals import agreed
from alignatt_agent.policy.rows import head_mean
from alignatt_agent.types import NO_CONTEXT, Decision, Draft, DraftContext, StopReason
from alignatt_agent.types.running_text import common_prefix
from lab.policy_bench.replay import Build, Sentence


def shares(draft: Draft, edge: int) -> list[float]:
    """Return, for each token, the attention before ``edge`` over that on the whole source."""
    if draft.rows is None:
        return []
    mean_rows = head_mean(draft.rows.source)
    return [float(row[:edge].sum() / max(row.sum(), 1e-12)) for row in mean_rows]


class Either(AlignAtt):
    """Accepts what the gate accepts, or what drafts agree on up to a second margin.

    Attributes:
        share: minimum share of the attention on the source that lies before the border; replaces
            the peak if it is not 0.
        agreeing: number of drafts that must agree.
        agreed_margin: border margin of tokens that drafts agree on.
    """

    name: Literal["either"] = "either"  # type: ignore[assignment]
    share: float = Field(default=0.0, ge=0, le=1)
    agreeing: int = Field(default=3, ge=1)
    agreed_margin: int = 2

    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Accept the longer of the two prefixes."""
        strict = self._gated(draft, frontier, context)
        loose = self.model_copy(update={"border_margin": self.agreed_margin})
        inside = AlignAtt.decide(loose, draft, frontier, context).accepted
        both = min(agreed(draft, context, self.agreeing), inside) if self.agreeing > 1 else 0
        return Decision(max(strict, both), StopReason.SOURCE_FRONTIER)

    def _gated(self, draft: Draft, frontier: int, context: DraftContext) -> int:
        if not self.share:
            return AlignAtt.decide(self, draft, frontier, context).accepted
        found = shares(draft, self.edge(frontier))
        return sum(1 for _ in takewhile(lambda share: share >= self.share, found))


class Certain(AlignAtt):
    """Uses a looser margin for tokens that are certain.

    Attributes:
        measure: ``row`` compares the largest weight of the mean row with its sum over the source;
            ``probability`` reads the probability of the token.
        least: minimum value of a certain token.
        certain_margin: border margin of certain tokens; ``border_margin`` applies to other tokens.
        agreeing: number of drafts that suffice instead of the gate; 1 turns this off.
        agreed_margin: border margin of tokens that drafts agree on.
    """

    name: Literal["certain"] = "certain"  # type: ignore[assignment]
    least: float = Field(default=0.5, ge=0, le=1)
    certain_margin: int = 0
    agreeing: int = Field(default=1, ge=1)
    agreed_margin: int = 2

    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Stop before the first token whose peak is beyond its own margin."""
        accepted = 0
        certainties = self.certainties(draft)
        peaks = [] if draft.rows is None else head_mean(draft.rows.source).argmax(axis=1)
        for peak, certainty in zip(peaks, certainties, strict=True):
            margin = self.certain_margin if certainty >= self.least else self.border_margin
            if peak >= max(0, frontier + margin):
                break
            accepted += 1
        common = agreed(draft, context, self.agreeing) if self.agreeing > 1 else 0
        inside = sum(1 for _ in takewhile(lambda x: x < frontier + self.agreed_margin, peaks))
        return Decision(max(accepted, min(common, inside)), StopReason.SOURCE_FRONTIER)

    def certainties(self, draft: Draft) -> list[float]:
        """Return the certainty of each token: the largest weight of its row over its sum."""
        if draft.rows is None:
            return []
        rows = head_mean(draft.rows.source)
        return [float(row.max() / max(row.sum(), 1e-12)) for row in rows]


class Probable(Certain):
    """Uses a looser margin for tokens with a high probability."""

    reads: ClassVar[Reads] = "probabilities"
    name: Literal["probable"] = "probable"  # type: ignore[assignment]

    def certainties(self, draft: Draft) -> list[float]:
        """Return the probability of each token."""
        return list(draft.probabilities)


class OverSources(Either):
    """Accepts what the gate accepts, or what also follows a source without its last words.

    Attributes:
        sentence: the state of the sentence.
        removed: numbers of last words to remove; every shorter source must give the same tokens.
    """

    name: Literal["over_sources"] = "over_sources"  # type: ignore[assignment]
    sentence: Any = None
    removed: tuple[int, ...] = (1,)

    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Compare ``draft`` with the drafts of shorter sources, made now."""
        strict = self._gated(draft, frontier, context)
        loose = self.model_copy(update={"border_margin": self.agreed_margin})
        inside = AlignAtt.decide(loose, draft, frontier, context).accepted
        common = len(draft.token_ids)
        for count in self.removed:
            shorter = self.sentence.draft_without(count)
            common = min(common, common_prefix(draft.token_ids, shorter))
        return Decision(max(strict, min(common, inside)), StopReason.SOURCE_FRONTIER)


class Oracle(Policy):
    """Accepts what the off-line translation of the same model also begins with.

    Attributes:
        sentence: the state of the sentence.
        offline: token ids of the off-line translation.
    """

    name: Literal["oracle"] = "oracle"
    sentence: Any
    offline: tuple[int, ...]

    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Accept the tokens that are equal to those of the off-line translation."""
        rest = self.offline[len(self.sentence.accepted) :]
        return Decision(common_prefix(draft.token_ids, rest), StopReason.DISAGREEMENT)


CLASSES: dict[str, type[Policy]] = {
    **POLICIES,
    "either": Either,
    "certain": Certain,
    "probable": Probable,
    "over_sources": OverSources,
}

RULES: dict[str, dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
)
"""Settings of each rule, by the label that tables show."""


def build_of(label: str, gate: Mapping[str, Any]) -> Build:
    """Return a function that creates the policy of a rule for a sentence.

    ``gate`` contains the settings that all rules with attention rows share.
    """
    settings = RULES[label]
    kind = CLASSES[settings["name"]]
    shared = {key: value for key, value in gate.items() if key in kind.model_fields}

    def build(sentence: Sentence) -> Policy:
        more = {"sentence": sentence} if "sentence" in kind.model_fields else {}
        return kind(**{**shared, **settings, **more})

    return build


def oracle_of(offline: tuple[int, ...]) -> Build:
    """Return a function that creates the oracle of a sentence with this off-line translation."""

    def build(sentence: Sentence) -> Policy:
        return Oracle(sentence=sentence, offline=offline)

    return build
