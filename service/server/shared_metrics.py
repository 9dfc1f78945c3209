"""Metrics of several workers: files in a folder that each worker maps into its memory.

A worker has to join before it makes its first metric. A worker that replaces a dead one continues
its files: no counter ever goes down, and the number of files does not grow.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"


def join(folder: Path, number: int) -> None:
    """Keep the metrics of this process in the folder, under the number of the worker."""
    os.environ[_VARIABLE] = str(folder)
    from prometheus_client import values

    values.ValueClass = values.MultiProcessValue(lambda: number)


def drop_gauges(folder: Path, number: int) -> None:
    """Drop the gauges of a worker that died; its counts stay."""
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(number, str(folder))
