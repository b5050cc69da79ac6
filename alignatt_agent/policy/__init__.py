"""Acceptance policies: pure decisions over a draft and its attention rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from alignatt_agent.policy.alignatt import AlignAtt
from alignatt_agent.policy.confidence import Confidence
from alignatt_agent.policy.emit_all import EmitAll
from alignatt_agent.policy.hold_n import HoldN
from alignatt_agent.policy.local_agreement import LocalAgreement
from alignatt_agent.policy.wait_k import WaitK
from alignatt_agent.types import NO_CONTEXT, Decision, Draft, DraftContext, Gate

if TYPE_CHECKING:  # the worker of an engine needs no configuration
    from alignatt_agent.config.policy_config import PolicyConfig


class Policy(Protocol):
    """Decides how many leading tokens of a draft may be emitted."""

    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Judge ``draft``; ``frontier`` counts the source tokens of accessible words."""

    def gate(self, frontier: int) -> Gate | None:
        """Return what tells an engine where this policy will stop, if rows alone can tell."""


def build_policy(config: PolicyConfig, single: bool = False) -> Policy:
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
    if config.name == "wait_k":
        return WaitK(config.n, config.rate)
    if config.name == "confidence":
        return Confidence(config.tau_prob)
    if config.name == "alignatt":
        return AlignAtt(
            border_margin=config.border_margin,
            tau_argmax=config.tau_argmax,
            tau_src=config.tau_src,
            normalise=config.normalise,
            median_width=config.median_width,
            median=config.median,
            n=1 if single else config.n,
        )
    known = "alignatt, confidence, hold_n, local_agreement, none, wait_k"
    raise ValueError(f"unknown policy {config.name!r}; known: {known}")


__all__ = [
    "AlignAtt",
    "Confidence",
    "EmitAll",
    "HoldN",
    "LocalAgreement",
    "Policy",
    "WaitK",
    "build_policy",
]
