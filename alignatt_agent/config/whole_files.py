"""Write files so that a reader never sees half of one."""

import errno
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
    # E.g. a named pipe, or a link to /dev/stdout, whose real path may not exist.
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    partial = target.with_name(target.name + PARTIAL)
    try:
        partial.write_text(text, encoding="utf-8")
        if target.exists():
            shutil.copymode(target, partial)
        try:
            partial.replace(target)
        except OSError as error:
            # A file that is mounted by itself (docker run -v FILE:FILE) cannot be replaced.
            if error.errno != errno.EBUSY:
                raise
            target.write_text(text, encoding="utf-8")
    finally:
        partial.unlink(missing_ok=True)
