"""Find the folders for caches of this package, of its engines and of the hub's client."""

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
        raise _homeless("~/.cache") from None


def hub_cache() -> Path:
    """Return the folder in which the Hugging Face hub's client stores checkpoints.

    Raises:
        ConfigError: it is in the home folder, and there is none (see ``cache_folder``).
    """
    from huggingface_hub import constants

    try:
        return Path(constants.HF_HUB_CACHE).expanduser()
    except RuntimeError:
        raise _homeless(constants.HF_HUB_CACHE) from None


def _homeless(folder: str) -> ConfigError:
    # Containers often run as a user id without an entry in the user database.
    return ConfigError(
        f"the cache folder {folder} cannot be found: HOME is not set, and user {os.getuid()} "
        "has no home folder; set HOME or XDG_CACHE_HOME to a writable folder"
    )
