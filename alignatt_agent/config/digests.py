"""Short hashes of contents: configurations, prompts, checkpoints, dev sets and logs."""

import hashlib
from collections.abc import Iterable

DIGITS = 12
"""Hexadecimal digits of a short hash: 48 bits tell contents apart and fit on a line of a report."""


def short_digest(parts: Iterable[bytes]) -> str:
    """Return the first ``DIGITS`` digits of the SHA-256 of the joined ``parts``.

    The digits are stored in head sets, signatures and names of folders, so the rule must not
    change. The borders between the parts are not hashed.
    """
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()[:DIGITS]
