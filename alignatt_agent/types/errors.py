"""Errors of this package."""


class AlignAttError(Exception):
    """Base class of our errors; the message names the value, what was expected and the fix.

    Attributes:
        exit_status: exit status of a command that fails with it; 2 means that nothing was started.
    """

    exit_status = 2


class EngineError(AlignAttError, RuntimeError):
    """An inference engine failed; the message names the model and the cause."""

    exit_status = 1
