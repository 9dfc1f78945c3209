"""Measures how CPU time grows with the input size, on a machine that is never quiet.

Each bound is half-way, on a logarithmic scale, between the correct growth and the next worse one.
Noise has to change a measurement almost threefold to change a result.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Prepares the work of a given size and returns it; only the work is measured.
Prepare = Callable[[int], Callable[[], object]]

FACTOR = 8
# A measurement is repeated until it takes this long, far above the resolution of the clock.
_LEAST_SECONDS = 0.001
_ROUNDS = 5
# The smaller size is cheap; measuring it too slow would hide the growth, so it gets more runs.
_SMALL_RUNS = 3


def assert_linear(prepare: Prepare, size: int) -> None:
    """Eight times the size takes closer to 8 times as long than to 64 times."""
    _assert_within(FACTOR**1.5, prepare, size, FACTOR * size)


def assert_constant(prepare: Prepare, small: int, large: int) -> None:
    """The ratio of the times is closer to 1 than to the ratio of the sizes."""
    _assert_within(math.sqrt(large / small), prepare, small, large)


def _assert_within(bound: float, prepare: Prepare, small: int, large: int) -> None:
    """Compare the fastest measurements of both sizes; stop at the first round within the bound."""
    few, many = prepare(small), prepare(large)
    with _no_garbage_collection():
        times = _count_runs(few)
        of_few = of_many = math.inf
        for _ in range(_ROUNDS):
            of_few = min(of_few, *(_seconds_of(few, times) for _ in range(_SMALL_RUNS)))
            of_many = min(of_many, _seconds_of(many, max(1, times * small // large)))
            if of_many <= bound * of_few:
                return
    message = f"{large} take {of_many / of_few:.1f} times as long as {small}: more than {bound:.1f}"
    raise AssertionError(message)


def _count_runs(work: Callable[[], object]) -> int:
    """The number of runs of the work that takes long enough to be measured."""
    work()
    times = 1
    while times * _seconds_of(work, times) < _LEAST_SECONDS:
        times *= 2
    return times


def _seconds_of(work: Callable[[], object], times: int) -> float:
    """The time of one run, averaged over so many."""
    began = time.thread_time()
    for _ in range(times):
        work()
    return (time.thread_time() - began) / times


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Disable garbage collection: its time depends on what all tests before left in memory."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
