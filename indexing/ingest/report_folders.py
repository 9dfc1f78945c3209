"""Finds the report files in a folder. Opens none of them."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_SUFFIXES: Final = (".xml", ".xml.gz")
_LEADS_NOWHERE: Final = frozenset({errno.ELOOP, errno.ENOTDIR, errno.ENAMETOOLONG})


def find_reports(top: Path) -> Iterator[Path | OSError]:
    """Yield the reports in a folder and its subfolders, and the errors of what cannot be read.

    Links are followed. A folder is read once, however many links lead to it, so loops end.
    """
    seen: set[tuple[int, int]] = set()
    folders = [top]
    while folders:
        folder = folders.pop()
        subfolders: list[Path] = []
        try:
            status = folder.stat()
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(folder) as scanned:
                entries = sorted(scanned, key=lambda entry: entry.name)
        except OSError as error:
            yield error
            continue
        for entry in entries:
            is_named = entry.name.lower().endswith(_SUFFIXES)
            try:
                if entry.is_dir():
                    subfolders.append(folder / entry.name)
                elif is_named and entry.is_file():
                    yield folder / entry.name
                elif is_named:
                    # Skip pipes and devices: opening one could block for ever. This fails for a
                    # link to what is missing, which is neither a folder nor a file.
                    entry.stat()
            except OSError as error:
                # A link that leads nowhere is no folder, and no report unless its name says so.
                if is_named or error.errno not in _LEADS_NOWHERE:
                    yield error
        folders += reversed(subfolders)
