"""Commands collect reference cycles rarely, and leave the collector as it was."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from service.cli.garbage_collection import COLLECTED_AFTER, collecting_rarely


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Restore what this process of tests has set."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.freeze()


def test_the_collector_is_as_before_after_the_work() -> None:
    gc.set_threshold(700, 10, 10)
    gc.unfreeze()
    with collecting_rarely():
        assert gc.isenabled()
        assert gc.get_threshold()[0] == COLLECTED_AFTER
        assert gc.get_freeze_count()
    assert gc.get_threshold() == (700, 10, 10)
    assert gc.get_freeze_count() == 0


def test_a_process_that_collects_rarely_is_left_alone() -> None:
    gc.set_threshold(COLLECTED_AFTER, 5, 5)
    older: list[object] = []
    gc.freeze()
    newer: list[object] = []
    with collecting_rarely():
        assert gc.get_threshold() == (COLLECTED_AFTER, 5, 5)
        assert is_scanned(newer)
    assert not is_scanned(older)


def is_scanned(thing: object) -> bool:
    """Tell whether the collector looks at ``thing``, which it does unless it is frozen."""
    return any(scanned is thing for scanned in gc.get_objects())
