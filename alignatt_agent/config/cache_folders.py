"""Find the folders for caches of this package and of its engines."""

import os
from pathlib import Path

from alignatt_agent.config.errors import ConfigError


def cache_folder() -> Path:
    """Return this package's folder in the user's cache.

    Raises:
        ConfigError: neither the environment nor the user database names a home folder.
    """
    return Path(user_cache(), "alignatt_agent")


def user_cache() -> Path:
    """Return the user's folder for caches of all programs (see ``cache_folder``)."""
    written = os.environ.get("XDG_CACHE_HOME")
    if written:
        return Path(written)
    try:
        return Path.home() / ".cache"
    except RuntimeError:
        # Containers often run as a user id without an entry in the user database.
        raise ConfigError(
            f"the cache folder ~/.cache cannot be found: HOME is not set, and user {os.getuid()} "
            "has no home folder; set HOME or XDG_CACHE_HOME to a writable folder"
        ) from None
