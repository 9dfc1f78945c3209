"""Assigns cores to the servers and to the load: different ones if there are two."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cores:
    """The cores of the measured service, and those of everything else: load and databases."""

    server: frozenset[int]
    client: frozenset[int]

    @property
    def apart(self) -> bool:
        """Return whether the two share no core."""
        return not self.server & self.client


def divide(available: frozenset[int], workers: int) -> Cores:
    """Give one core to each worker and the rest to the load, or all to both if none is left."""
    ordered = sorted(available)
    if len(ordered) <= workers:
        return Cores(available, available)
    return Cores(frozenset(ordered[:workers]), frozenset(ordered[workers:]))


def available_cores() -> frozenset[int]:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


@contextmanager
def pinned(cores: frozenset[int]) -> Iterator[None]:
    """Run processes started within on those cores, with all their threads and children."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
