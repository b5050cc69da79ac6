"""Acceptance rules of the bench: the product's policies, and rules that only the lab has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import yaml
from pydantic import Field

from alignatt_agent.policy import POLICIES, AlignAtt, AlignAttOrAgreement, Policy
from alignatt_agent.policy.base import Reads
from alignatt_agent.policy.rivals import agreed
from alignatt_agent.policy.rows import head_mean
from alignatt_agent.text.running_text import common_prefix
from alignatt_agent.types import NO_CONTEXT, Decision, Draft, DraftContext, StopReason
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


def _leading(values: Iterable[float], accepts: Callable[[float], bool]) -> int:
    """Return the number of values before the first one that is not accepted."""
    count = 0
    for value in values:
        if not accepts(value):
            break
        count += 1
    return count


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
        accepted = _leading(token_shares, lambda share: share >= self.share)
        return Decision(accepted, StopReason.SOURCE_FRONTIER)


class Certain(AlignAtt):
    """Uses a looser margin for tokens that are certain.

    Attributes:
        least: minimum of ``certainties`` for a certain token.
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
        peaks: list[int] = []
        if draft.rows is not None:
            peaks = head_mean(draft.rows.source).argmax(axis=1).tolist()
        accepted = 0
        for peak, certainty in zip(peaks, self.certainties(draft), strict=True):
            margin = self.border_margin
            if certainty >= self.least:
                margin = self.certain_margin
            if peak >= max(0, frontier + margin):
                break
            accepted += 1
        if self.agreeing > 1:
            common = agreed(draft, context, self.agreeing)
            inside = _leading(peaks, lambda peak: peak < frontier + self.agreed_margin)
            accepted = max(accepted, min(common, inside))
        return Decision(accepted, StopReason.SOURCE_FRONTIER)

    def certainties(self, draft: Draft) -> list[float]:
        """Return the certainty of each token: the largest weight of its row over its sum."""
        if draft.rows is None:
            return []
        certainties: list[float] = []
        for row in head_mean(draft.rows.source):
            total = max(row.sum(), _LEAST_SUM)
            certainties.append(float(row.max() / total))
        return certainties


class Probable(Certain):
    """Uses a looser margin for tokens with a high probability."""

    reads: ClassVar[Reads] = "probabilities"
    name: Literal["probable"] = "probable"  # type: ignore[assignment]

    def certainties(self, draft: Draft) -> list[float]:
        """Return the probability of each token."""
        return list(draft.probabilities)


class OverSources(AlignAttOrAgreement):
    """Accepts what the gate accepts, or what also follows a source without its last words.

    Attributes:
        sentence: the state of the sentence.
        removed: numbers of last words to remove; every shorter source must give the same tokens.
    """

    name: Literal["over_sources"] = "over_sources"  # type: ignore[assignment]
    drafts: int = 2
    sentence: Any = None
    removed: tuple[int, ...] = (1,)

    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Compare ``draft`` with the drafts of shorter sources, made now."""
        common = draft.token_ids
        for count in self.removed:
            shorter_source_draft = self.sentence.draft_without(count)
            common = common[: common_prefix(common, shorter_source_draft)]
        # The parent class accepts what two drafts agree on: this one and their common prefix.
        return super().decide(draft, frontier, DraftContext(earlier=(common,)))


class WithoutStop(AlignAtt):
    """Applies the gate, but never ends the sentence before its source ends.

    Attributes:
        sentence: the state of the sentence.
    """

    name: Literal["without_stop"] = "without_stop"  # type: ignore[assignment]
    sentence: Any = None

    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Stop before the first token that ends a sentence."""
        decision = super().decide(draft, frontier, context)
        # The end of a draft counts as a space.
        pieces = (*self.sentence.pieces(draft.token_ids), " ")
        for place in range(decision.accepted):
            piece = pieces[place].rstrip()
            following = pieces[place + 1]
            # The stops of "3.5" and "example.org" do not end a sentence.
            is_before_space = piece.endswith(STOPS) and following[:1].isspace()
            if is_before_space or piece.endswith(WIDE_STOPS):
                return replace(decision, accepted=place)
        return decision


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


STOPS = (".", "!", "?", "。", "！", "？")  # noqa: RUF001
WIDE_STOPS = STOPS[3:]
"""Stops of scripts without spaces between sentences."""

CLASSES: dict[str, type[Policy]] = {
    **POLICIES,
    "share": Share,
    "certain": Certain,
    "probable": Probable,
    "over_sources": OverSources,
    "without_stop": WithoutStop,
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
        return Oracle(sentence=sentence, offline=offline)

    return build
