"""Results of the doctor's checks, and its exit status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "FAIL"]


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report; ``FAIL`` makes the doctor exit with status 1.

    Attributes:
        name: the subject of the check.
        status: ``warn`` for a problem that does not prevent the use of the agent.
        result: what was measured, compared or missing.
        fix: what the user can do about a problem.
    """

    name: str
    status: Status
    result: str
    fix: str = ""

    @classmethod
    def judged(cls, name: str, good: bool, result: str, fix: str, bad: Status = "FAIL") -> Check:
        """Return an ``ok`` check if ``good``, or else a check with status ``bad`` and the fix."""
        if good:
            return cls(name, "ok", result)
        return cls(name, bad, result, fix)

    @classmethod
    def failed(cls, name: str, message: object, fix: str = "") -> Check:
        """Return a failed check; a fix after a semicolon in the message replaces ``fix``."""
        problem, _, named_fix = str(message).partition("; ")
        return cls(name, "FAIL", problem, named_fix or fix)

    def __str__(self) -> str:
        """Format the check as one line, with the fix on a second line."""
        line = f"{self.status:<5} {self.name:<24} {self.result}"
        if not self.fix:
            return line
        indent = " " * 30  # below the column with the finding
        return f"{line}\n{indent} fix: {self.fix}"


def exit_status(checks: Sequence[Check]) -> int:
    """Return 0 if nothing failed, else 1."""
    if any(check.status == "FAIL" for check in checks):
        return 1
    return 0
