"""Lets files grow no further: writes fail as on a full disk."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def limit_of_files(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond so many bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Otherwise the signal of the limit ends the process; the error comes after it.
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
