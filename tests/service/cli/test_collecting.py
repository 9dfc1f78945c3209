"""Commands collect reference cycles rarely, and leave the collector as it was."""

from __future__ import annotations

import gc

import pytest

from service.cli.collecting import COLLECTED_AFTER, collecting_rarely


@pytest.mark.parametrize("is_frozen", [False, True])
def test_the_collector_is_as_before_after_the_work(*, is_frozen: bool) -> None:
    before = gc.get_freeze_count()
    gc.unfreeze()
    if is_frozen:
        gc.freeze()
    threshold, frozen = gc.get_threshold(), gc.get_freeze_count()
    with collecting_rarely():
        assert gc.isenabled()
        assert gc.get_threshold()[0] == COLLECTED_AFTER > threshold[0]
        assert gc.get_freeze_count() >= max(frozen, 1)
    assert (gc.get_threshold(), gc.get_freeze_count()) == (threshold, frozen)
    if before:
        gc.freeze()
