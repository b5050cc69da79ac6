"""Acceptance policies: pure decisions over a draft and its attention rows."""

from __future__ import annotations

from typing import Literal, Protocol

from alignatt_agent.policy.alignatt import AlignAtt
from alignatt_agent.policy.emit_all import EmitAll
from alignatt_agent.policy.hold_n import HoldN
from alignatt_agent.policy.local_agreement import LocalAgreement
from alignatt_agent.types import NO_CONTEXT, Decision, Draft, DraftContext, Gate


class Policy(Protocol):
    """Decides how many leading tokens of a draft may be emitted."""

    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Judge ``draft``; ``frontier`` counts the source tokens of accessible words."""

    def gate(self, frontier: int) -> Gate | None:
        """Return what tells an engine where this policy will stop, if rows alone can tell."""


class PolicySettings(Protocol):
    """The part of the configuration that a policy reads."""

    @property
    def name(self) -> Literal["alignatt", "hold_n", "local_agreement", "none"]:
        """Which policy."""

    @property
    def n(self) -> int:
        """Drafts that have to agree, or units to hold back."""

    @property
    def normalise(self) -> Literal["zscore", "none"]:
        """Filter of branch B."""

    @property
    def median_width(self) -> int:
        """Odd width of the median filter in source tokens."""

    @property
    def border_margin(self) -> int:
        """Source tokens that a peak may reach past the frontier."""

    @property
    def tau_argmax(self) -> float:
        """Lowest attention at the peak."""

    @property
    def tau_src(self) -> float:
        """Lowest accessible attention mass."""


def build_policy(config: PolicySettings, single: bool = False) -> Policy:
    """Return the policy that ``config`` names.

    Args:
        config: its settings.
        single: judge each draft by itself, whatever drafts have to agree in a stream: for
            diagnostics of one draft.

    Raises:
        ValueError: no policy has that name.
    """
    if config.name == "none":
        return EmitAll()
    if config.name == "hold_n":
        return HoldN(config.n)
    if config.name == "local_agreement":
        return LocalAgreement(config.n)
    if config.name == "alignatt":
        return AlignAtt(
            border_margin=config.border_margin,
            tau_argmax=config.tau_argmax,
            tau_src=config.tau_src,
            normalise=config.normalise,
            median_width=config.median_width,
            n=1 if single else config.n,
        )
    raise ValueError(
        f"unknown policy {config.name!r}; known: alignatt, hold_n, local_agreement, none"
    )


__all__ = [
    "AlignAtt",
    "EmitAll",
    "HoldN",
    "LocalAgreement",
    "Policy",
    "PolicySettings",
    "build_policy",
]
