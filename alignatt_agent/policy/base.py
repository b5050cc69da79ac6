"""What a policy is: strict settings, and a decision over a draft that depends on nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from alignatt_agent.types import NO_CONTEXT, Decision, Draft, DraftContext
from alignatt_agent.types.engines import Gate


class Policy(BaseModel, ABC):
    """Decides how many leading tokens of a draft may be emitted.

    A policy is its own configuration: the keys under ``policy`` are the fields of the class whose
    ``name`` stands there.

    Attributes:
        name: a literal that no other policy has.
        top_k: how many heads of the head set are read, to judge or to time what is emitted.
        reads: what it judges by; rows and probabilities need a head set.
        renamed: keys of earlier versions, with what is written now.
    """

    reads: ClassVar[Literal["tokens", "rows", "probabilities"]] = "tokens"
    renamed: ClassVar[dict[str, str]] = {}
    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    name: str
    top_k: int = Field(default=8, ge=1)

    @abstractmethod
    def decide(self, draft: Draft, frontier: int, context: DraftContext = NO_CONTEXT) -> Decision:
        """Judge a draft.

        Args:
            draft: the drafted tokens, with the rows or probabilities that the policy reads.
            frontier: number of leading source tokens that belong to accessible words.
            context: units of the draft, earlier drafts, and how much was heard and written.

        Raises:
            ValueError: rows or probabilities are missing.
        """

    def gate(self, frontier: int) -> Gate | None:
        """Return the scan that an engine may run while it drafts; None where rows do not tell."""
        return None

    def alone(self) -> Policy:
        """Return the policy that judges one draft by itself, for diagnostics."""
        return self
