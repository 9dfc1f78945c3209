"""The times of changes of quarantines."""

from __future__ import annotations

from indexing.quarantine.changes import find_withdrawal_time
from tests.builders import NOON, after


def test_a_withdrawal_is_older_than_the_beginning_in_the_same_pass() -> None:
    began = after(days=-1)
    assert find_withdrawal_time(NOON, began, begins_again=False) == NOON
    assert began < find_withdrawal_time(NOON, began, begins_again=True) < NOON
    # Its own beginning comes first in any case.
    assert find_withdrawal_time(NOON, NOON, begins_again=True) == NOON
