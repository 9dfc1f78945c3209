"""Whether there is a file at a path.

From Python 3.14 on, the methods of `Path` say that there is none if it cannot be known.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path


def exists(path: Path) -> bool:
    """Return whether there is anything at that path.

    Raises:
        OSError: that cannot be known, for example without permission for the folder.
    """
    return _find(path) is not None


def is_file(path: Path) -> bool:
    """Return whether there is a regular file at that path; raises what `exists` raises."""
    found = _find(path)
    return found is not None and stat.S_ISREG(found.st_mode)


def _find(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
