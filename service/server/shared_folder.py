"""A temporary folder that the workers of one service share."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from indexing.errors import MergewatchError

# How long a folder may take to be locked after it was made.
_LOCKED_WITHIN_SECONDS: Final = 60.0


class NoFolderError(MergewatchError):
    """The folder cannot be made."""


@contextmanager
def shared_folder(content: str) -> Iterator[Path]:
    """Make a folder for the workers' content of that name, and remove it at the end.

    Also removes those that services left behind which were killed.

    Raises:
        NoFolderError: it cannot be made.
    """
    prefix = f"mergewatch-{content}-"
    try:
        _drop_leftovers(Path(tempfile.gettempdir()), prefix)
        made = tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)
    except OSError as error:
        raise NoFolderError(
            f"cannot make a folder for the {content} of several workers: "
            f"{error.strerror}; set TMPDIR to a writable folder"
        ) from error
    with made as name:
        folder = os.open(name, os.O_RDONLY)
        try:
            # systemd-tmpfiles leaves a locked folder alone, however old its files look. The workers
            # share the lock, so it ends with the last of them.
            fcntl.flock(folder, fcntl.LOCK_SH)
            yield Path(name)
        finally:
            os.close(folder)


def _drop_leftovers(place: Path, prefix: str) -> None:
    """Remove the folders of this user that no process has locked any more."""
    for path in place.glob(f"{prefix}*"):
        # Another service may remove it, or another user own it.
        with suppress(OSError):
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                about = os.fstat(folder)
                age = time.time() - about.st_mtime
                if about.st_uid == os.getuid() and age > _LOCKED_WITHIN_SECONDS:
                    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(folder)
