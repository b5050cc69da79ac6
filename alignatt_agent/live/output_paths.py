"""Names of output files, and checks before the start that they can be written."""

import os
from collections.abc import Sequence
from pathlib import Path

from alignatt_agent.config.errors import ConfigError
from alignatt_agent.config.languages import Language
from alignatt_agent.config.whole_files import PARTIAL


def output_path(stem: Path, target: Language, form: str) -> Path:
    """Return the output path for a language."""
    return stem.with_name(f"{stem.name}.{target.code}.{form}")


def check_writable(stem: Path, paths: Sequence[Path], overwrite: bool) -> None:
    """Reject outputs that exist or cannot be written.

    Raises:
        ConfigError: an output exists and ``overwrite`` is false, its name is too long, or its
            folder or the file itself is not writable.
    """
    if not os.access(stem.parent, os.W_OK):
        raise ConfigError(f"--output: the folder {stem.parent} does not exist or is not writable")
    longest = os.pathconf(stem.parent, "PC_NAME_MAX")
    for path in paths:
        name = path.name
        # Subtitles are first written to a file with a longer name.
        if path.suffix in (".srt", ".vtt"):
            name += PARTIAL
        size = len(os.fsencode(name))
        if size > longest:
            raise ConfigError(
                f"--output: the file name {name[:30]}...{name[-16:]} has {size} bytes, but "
                f"{stem.parent.resolve()} allows {longest}: choose a shorter --output"
            )
        if path.is_dir() or (path.exists() and not os.access(path, os.W_OK)):
            raise ConfigError(f"--output: {path} is a folder or is not writable")
        # A link is kept, and the file to which it points is replaced.
        target = Path(os.path.realpath(path))
        if target.is_symlink():  # a loop, which has no end
            raise ConfigError(f"--output: {path} is a link that leads back to itself; remove it")
        if path.is_symlink() and not os.access(target.parent, os.W_OK):
            raise ConfigError(
                f"--output: {path} is a link to {target}, whose folder does not exist or is not "
                f"writable"
            )
        if path.is_file() and not overwrite:
            raise ConfigError(f"{path} exists: add --overwrite, or choose another --output")
