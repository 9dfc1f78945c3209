"""Runs the collector of reference cycles less often while a command works on a store."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# The collector runs once this many more objects were created than freed, instead of 700.
COLLECTED_AFTER: Final = 20_000


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Collect cycles less often inside the context.

    A rebuild creates hundreds of thousands of objects a second, all of which are freed without the
    collector. To scan those that are alive took a fifth of its CPU time. Does nothing in a process
    that collects as rarely already.
    """
    before = gc.get_threshold()
    if before[0] >= COLLECTED_AFTER:
        yield
        return
    # Objects that exist now, such as imported modules, are not scanned again.
    gc.freeze()
    gc.set_threshold(COLLECTED_AFTER, 10, 10)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
