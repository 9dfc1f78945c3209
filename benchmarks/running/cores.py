"""Which cores the servers run on and which the load: different ones where there are two."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cores:
    """Where the service under measurement runs, and where all else does: load and databases."""

    server: frozenset[int]
    client: frozenset[int]

    @property
    def apart(self) -> bool:
        """Whether neither takes time from the other."""
        return not self.server & self.client


def divide(available: frozenset[int], workers: int) -> Cores:
    """One core for each worker and the rest for the load, or all for both where that is none."""
    ordered = sorted(available)
    if len(ordered) <= workers:
        return Cores(available, available)
    return Cores(frozenset(ordered[:workers]), frozenset(ordered[workers:]))


def available_cores() -> frozenset[int]:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


@contextmanager
def pinned(cores: frozenset[int]) -> Iterator[None]:
    """Have what is started within run on those cores, with all its threads and children."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
