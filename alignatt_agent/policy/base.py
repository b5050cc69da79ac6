"""Define the interface of policies: strict settings and a stateless decision on a draft."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from alignatt_agent.types import (
    NO_CONTEXT,
    Decision,
    Draft,
    DraftContext,
    FloatArray,
    StopReason,
)
from alignatt_agent.types.engines import Gate

Reads = Literal["tokens", "rows", "probabilities"]

Texts = Mapping[str, tuple[str, ...]]

RowScan = Callable[[FloatArray], str | None]
"""Receives the next row of a draft, ``[heads, source]``; returns a reason to reject its token."""


class Policy(BaseModel, ABC):
    """Decides how many leading tokens of a draft may be emitted.

    A policy is also its configuration: the keys under ``policy`` are the fields of the class with
    this ``name``. The table in docs/models.md is generated from the docstring.
    ``lab.curves`` compares the fields' ``examples`` if its grid contains no block for the policy.

    Attributes:
        name: the policy's unique literal, which is its key in ``POLICIES``.
        top_k: number of heads of the head set that are used to gate drafts or to time units.
        reads: data that ``decide`` uses; rows and probabilities need a head set.
        reasons: human-readable texts for each reason that ``decide`` returns. The live page shows
            the first text whose placeholders are known: ``{word}`` is the first drafted word that
            is held back; ``{heard}`` (accessible) or ``{unsure}`` (not yet accessible) is the
            source word at its attention peak.
    """

    reads: ClassVar[Reads] = "tokens"
    reasons: ClassVar[Texts] = {StopReason.DRAFT_END: ("up to date with the speech",)}
    model_config = ConfigDict(
        extra="forbid", frozen=True, protected_namespaces=(), allow_inf_nan=False
    )

    name: str
    # The paper keeps the best 8 heads of a language pair.
    top_k: int = Field(default=8, ge=1)

    @abstractmethod
    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Decide on a draft.

        Args:
            draft: the drafted tokens, with the rows or probabilities that the policy reads.
            frontier: number of leading source tokens that belong to accessible words.
            context: units of the draft, earlier drafts, and counts of words and units.

        Raises:
            ValueError: rows or probabilities are missing.
        """

    def edge(self, frontier: int) -> int:
        """Return the number of leading source tokens at which attention may peak."""
        return frontier

    def scan(self, frontier: int) -> RowScan | None:
        """Return the scan that an engine may run during a draft; ``None`` if rows are not used.

        A draft may end at the first rejected token; the decision is then ``closed``.
        """
        return None

    def gate(self, frontier: int) -> Gate | None:
        """Return a description of ``scan`` for an engine, or ``None`` if there is no scan."""
        if self.scan(frontier) is None:
            return None
        # The engine is another process, which builds the policy again from its settings.
        return Gate(self.model_dump(), frontier)

    def alone(self) -> Policy:
        """Return the policy that ignores earlier drafts, for diagnostics."""
        return self
