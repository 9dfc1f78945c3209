"""Metrics of several workers: files in a folder that each worker maps into its memory.

A worker has to join before it makes its first metric. A worker that replaces a dead one continues
its files: no counter ever goes down, and the number of files does not grow.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from indexing.errors import MergewatchError

_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"


class NoFolderError(MergewatchError):
    """The folder for the metrics cannot be made."""


@contextmanager
def metrics_folder() -> Iterator[Path]:
    """Make a folder for the metrics of the workers, and remove it at the end.

    Raises:
        NoFolderError: it cannot be made.
    """
    try:
        made = tempfile.TemporaryDirectory(prefix="mergewatch-metrics-", ignore_cleanup_errors=True)
    except OSError as error:
        raise NoFolderError(
            "cannot make a folder for the metrics of several workers: "
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


def join(folder: Path, number: int) -> None:
    """Keep the metrics of this process in the folder, under the number of the worker."""
    os.environ[_VARIABLE] = str(folder)
    from prometheus_client import values

    values.ValueClass = values.MultiProcessValue(lambda: number)


def drop_gauges(folder: Path, number: int) -> None:
    """Drop the gauges of a worker that died; its counts stay."""
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(number, str(folder))
