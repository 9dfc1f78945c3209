"""A temporary folder that the workers of one service share."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from indexing.errors import MergewatchError


class NoFolderError(MergewatchError):
    """The folder cannot be made."""


@contextmanager
def shared_folder(content: str) -> Iterator[Path]:
    """Make a folder for the workers' content of that name, and remove it at the end.

    Raises:
        NoFolderError: it cannot be made.
    """
    try:
        made = tempfile.TemporaryDirectory(
            prefix=f"mergewatch-{content}-", ignore_cleanup_errors=True
        )
    except OSError as error:
        raise NoFolderError(
            f"cannot make a folder for the {content} of several workers: "
            f"{error.strerror}; TMPDIR names a writable place"
        ) from error
    with made as name:
        folder = os.open(name, os.O_RDONLY)
        try:
            # systemd-tmpfiles leaves a locked folder alone, however old its files look.
            fcntl.flock(folder, fcntl.LOCK_SH)
            yield Path(name)
        finally:
            os.close(folder)
