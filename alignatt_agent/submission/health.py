"""Is the server up? Asked in a way that takes no processor away from a client."""

from __future__ import annotations

import http.client
import json

PROBE = "health"
"""Name of a session that nobody has: clearing it answers 204 and changes nothing."""


class UnhealthyError(RuntimeError):
    """The server does not answer, or something else does."""


def check_health(hostname: str, port: int, timeout_s: float = 5.0) -> None:
    """Ask the server for a sign of life.

    Its port opens when the engines are loaded. There is no route for this; any request about a
    new session would take one of the processors until the ``ttl`` is over, except this one.

    Args:
        hostname: where the server is.
        port: its port.
        timeout_s: seconds to wait.

    Raises:
        UnhealthyError: there is no answer, or a wrong one.
    """
    # http.client, unlike urllib, ignores the proxies of the environment.
    connection = http.client.HTTPConnection(hostname, port, timeout=timeout_s)
    try:
        body = json.dumps({"session_id": PROBE})
        connection.request("POST", "/clear", body, {"Content-Type": "application/json"})
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        reason = f"{type(error).__name__}: {error}"
        raise UnhealthyError(
            f"no answer from {hostname}:{port} ({reason}); engines load for minutes, the "
            f"container's log tells how far they are"
        ) from None
    finally:
        connection.close()
    if status != http.client.NO_CONTENT:
        raise UnhealthyError(
            f"{hostname}:{port} answered {status}, expected 204: is it another server?"
        )
