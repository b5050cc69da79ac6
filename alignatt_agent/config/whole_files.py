"""Write files so that a reader never sees half of one."""

import os
import shutil
from pathlib import Path

PARTIAL = ".part"
"""Suffix of a file that is being written."""


def replace_text(path: Path, text: str) -> None:
    """Replace the content of a file at once; a symbolic link and the file's mode are kept.

    The text is first written to a file beside it, whose name ends in ``PARTIAL``.

    Raises:
        OSError: the file cannot be written; its old content is kept.
    """
    target = Path(os.path.realpath(path))  # unlike Path.resolve, accepts loops of links
    if target.exists() and not target.is_file():  # e.g. a named pipe
        target.write_text(text, encoding="utf-8")
        return
    partial = target.with_name(target.name + PARTIAL)
    try:
        partial.write_text(text, encoding="utf-8")
        if target.exists():
            shutil.copymode(target, partial)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
