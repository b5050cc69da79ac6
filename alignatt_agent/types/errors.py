"""Errors of this package."""


class AlignAttError(Exception):
    """Base class of our errors; the message gives the value, the expected value and the fix.

    Attributes:
        exit_status: exit status of a command with this error; 2 means that nothing was started.
    """

    exit_status = 2


class EngineError(AlignAttError, RuntimeError):
    """An inference engine failed; the message names the model and the cause."""

    exit_status = 1
