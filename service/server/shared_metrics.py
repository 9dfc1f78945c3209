"""Metrics of several workers: files in a folder that each worker maps into its memory.

A worker has to join before it makes its first metric. A worker that replaces a dead one continues
its files: no counter ever goes down, and the number of files does not grow.

The supervisor makes the files, with all of their space. A worker only writes to its memory: if the
disk is full by then, the system can but kill it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from service.server.shared_folder import NoFolderError

_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"

# The space of each kind of file, in bytes: about four times what a service has been seen to use.
# The library makes a file that is too small larger, without its space.
SPACE: Final[Mapping[str, int]] = {
    "counter": 256 * 1024,
    "histogram": 1024 * 1024,
    "gauge_livemax": 64 * 1024,
    "gauge_livemin": 64 * 1024,
    "gauge_livesum": 64 * 1024,
}
# What a file begins with is the number of bytes in use. The library takes 0 for a new file.
_UNUSED: Final = bytes(8)


def make_files(folder: Path, count: int) -> None:
    """Make the files of so many workers.

    Raises:
        NoFolderError: there is no room for them.
    """
    try:
        for kind, size in SPACE.items():
            for number in range(count):
                with (folder / f"{kind}_{number}.db").open("xb") as file:
                    # Written, because a file that is only made longer takes no space.
                    file.write(bytes(size))
    except OSError as error:
        raise NoFolderError(
            f"cannot make the files for the metrics of {count} workers: {error.strerror};"
            " set TMPDIR to a folder with room for them"
        ) from error


def join(folder: Path, number: int) -> None:
    """Keep the metrics of this process in the folder, under the number of the worker."""
    os.environ[_VARIABLE] = str(folder)
    from prometheus_client import values

    values.ValueClass = values.MultiProcessValue(lambda: number)


def drop_gauges(folder: Path, number: int) -> None:
    """Drop the gauges of a worker that died; its counts stay, and its files keep their space."""
    for path in folder.glob(f"gauge_live*_{number}.db"):
        with path.open("r+b") as file:
            file.write(_UNUSED)
