"""What the validator finds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One violation.

    Attributes:
        rule: short name of what is violated, e.g. ``"append-only"``.
        where: file or system, relative to the bundle.
        message: what came and what was expected.
        fix: what to do about it.
    """

    rule: str
    where: str
    message: str
    fix: str

    def __str__(self) -> str:
        return f"[{self.rule}] {self.where}: {self.message}\n    fix: {self.fix}"
