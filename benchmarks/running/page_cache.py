"""Keeps the files of stores in memory, so that figures do not depend on what the kernel drops.

Some kernels drop pages that nobody has read for a minute or two, even if memory is free.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

_BUFFER: Final = 1 << 20


def read_files(folders: Iterable[Path]) -> None:
    """Read all files in these folders and below."""
    buffer = bytearray(_BUFFER)
    for folder in folders:
        for file in folder.rglob("*"):
            # A server may delete files meanwhile.
            with suppress(FileNotFoundError, IsADirectoryError), file.open("rb", 0) as opened:
                while opened.readinto(buffer):
                    pass
