"""Folders for data that lives for one test run."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Final

MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a new folder of this user is made in it
# In a container it may have only a few megabytes.
ENOUGH_BYTES: Final = 2 * 2**30


def memory() -> Path | None:
    """A file system in memory, if there is room: each commit of a store waits for a disk."""
    has_room = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ENOUGH_BYTES
    return MEMORY if has_room else None


def server_folder() -> tempfile.TemporaryDirectory[str]:
    """A new folder, in memory if possible."""
    return tempfile.TemporaryDirectory(prefix="mergewatch-", dir=memory())
