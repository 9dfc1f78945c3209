"""How the processor time of code grows with what it is given, on a machine that is never quiet.

Each bound lies half-way, on a logarithmic scale, between the growth that is right and the next
worse one. Noise has to change a measurement almost threefold to change a result.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Makes the work of a given size ready and returns it; only the work is measured.
Prepare = Callable[[int], Callable[[], object]]

FACTOR = 8
# A measurement is repeated until it takes this long, far above the resolution of the clock.
_LEAST_SECONDS = 0.001
_ROUNDS = 5
# The smaller size costs little, and a small time that is too long would hide what grows.
_SMALL_RUNS = 3


def assert_linear(prepare: Prepare, size: int) -> None:
    """Eight times the size takes nearer to 8 times as long than to 64 times."""
    _assert_within(FACTOR**1.5, prepare, size, FACTOR * size)


def assert_constant(prepare: Prepare, small: int, large: int) -> None:
    """The larger size takes nearer to as long as the smaller than to their ratio."""
    _assert_within(math.sqrt(large / small), prepare, small, large)


def _assert_within(bound: float, prepare: Prepare, small: int, large: int) -> None:
    """Compare the quietest measurements of both sizes; end at the first round within the bound."""
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
    """How many runs of the work take long enough to be measured."""
    work()
    times = 1
    while times * _seconds_of(work, times) < _LEAST_SECONDS:
        times *= 2
    return times


def _seconds_of(work: Callable[[], object], times: int) -> float:
    """What one of so many runs takes."""
    began = time.thread_time()
    for _ in range(times):
        work()
    return (time.thread_time() - began) / times


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """A collection takes as long as what all tests before have left behind."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
