"""Convert errors of a request to rejections, and count them."""

import logging
import traceback

from alignatt_agent.serve.access import BROKEN, RefusedError, gone
from alignatt_agent.serve.metrics import Metrics
from alignatt_agent.types import EngineError

LOGGER = logging.getLogger(__name__)


def reported(error: Exception, metrics: Metrics) -> RefusedError:
    """Return and count a rejection; log internal errors, and disclose only their type."""
    if isinstance(error, RefusedError):
        refusal = error
    elif isinstance(error, EngineError):
        refusal = gone(error)
    else:
        refusal = _internal(error)
    metrics.refusals.labels(refusal.code).inc()
    return refusal


def _internal(error: Exception) -> RefusedError:
    kind = type(error).__name__
    place = traceback.extract_tb(error.__traceback__)[-1]
    # One line per error: clients could fill the log with tracebacks.
    LOGGER.error("%s in %s:%s: %.200r", kind, place.filename, place.lineno, str(error))
    return RefusedError("internal", f"the server failed ({kind}): see its log", BROKEN)
