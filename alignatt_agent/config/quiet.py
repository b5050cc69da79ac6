"""Keeps what libraries say at start-up off the terminal; errors remain."""

import os
import warnings

QUIET = {
    "VLLM_LOGGING_LEVEL": "ERROR",
    "TRANSFORMERS_VERBOSITY": "error",
    # Python removes the semaphores of engines that were ended, and warns.
    "PYTHONWARNINGS": "ignore::FutureWarning,ignore:resource_tracker:UserWarning",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
    "TORCH_LOGS": "-all",
}
"""Engines inherit it: three of them write hundreds of lines while they start."""


def quieten() -> None:
    """Quieten this process and those that it will start; what the user has set stays as it is.

    Libraries read the environment when they are imported, so call it before that.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    warnings.simplefilter("ignore", FutureWarning)
