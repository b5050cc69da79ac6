"""Errors of this package."""


class AlignAttError(Exception):
    """Base class of this package's errors; messages state the value, what was expected and a fix.

    Attributes:
        exit_status: exit status of a command that raises this error; 2 means that nothing started.
    """

    exit_status = 2


class EngineError(AlignAttError, RuntimeError):
    """An inference engine failed; the message names the model and the cause."""

    exit_status = 1
