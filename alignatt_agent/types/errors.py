"""Our own errors."""


class AlignAttError(Exception):
    """Root of our own errors: the message says what came, what was expected and the fix.

    Attributes:
        exit_status: of a command that ends with it; 2 says that nothing was started.
    """

    exit_status = 2


class EngineError(AlignAttError, RuntimeError):
    """An inference engine failed; the message names the model and the cause."""

    exit_status = 1
