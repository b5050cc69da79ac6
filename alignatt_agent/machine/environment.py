"""Set environment variables for a limited time."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def environment(variables: Mapping[str, str], override: bool = False) -> Iterator[None]:
    """Set environment variables temporarily; with ``override``, even if the user has set them."""
    previous: dict[str, str | None] = {}
    for name, value in variables.items():
        # A variable that the user has set to nothing counts as unset.
        if override or not os.environ.get(name):
            previous[name] = os.environ.get(name)
            os.environ[name] = value
    try:
        yield
    finally:
        for name, old_value in previous.items():
            os.environ.pop(name, None)
            if old_value is not None:
                os.environ[name] = old_value
