"""Hide start-up messages of libraries from the terminal; errors remain visible."""

import os
import warnings

QUIET = {
    "VLLM_LOGGING_LEVEL": "ERROR",
    "TRANSFORMERS_VERBOSITY": "error",
    # Python warns when it removes the semaphores of engines that have exited.
    "PYTHONWARNINGS": "ignore::FutureWarning,ignore:resource_tracker:UserWarning",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
    "TORCH_LOGS": "-all",
}
"""Variables that engines inherit; without them, three engines print hundreds of start-up lines."""


def quieten() -> None:
    """Silence this process and its future child processes; keep the user's settings.

    Call this before importing libraries, because they read the environment on import.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    warnings.simplefilter("ignore", FutureWarning)
