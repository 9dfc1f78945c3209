"""A page of the log that is cut because its events are large."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing.models import events
from indexing.models.events import EventRow, fit_page
from indexing.models.paging import Page

MOST: Final = 10


@given(
    st.lists(st.integers(0, 2 * MOST), max_size=8),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_a_page_keeps_as_many_rows_beside_the_anchor_as_fit(
    sizes: Sequence[int], backward: bool, has_previous: bool, has_next: bool
) -> None:
    rows = tuple(EventRow(-number, number, b"x" * size) for number, size in enumerate(sizes))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(events, "MOST_PAGE_BYTES", MOST)
        page = fit_page(Page(rows, has_previous, has_next), backward=backward)
    kept = len(page.rows)
    assert page.rows == (rows[len(rows) - kept :] if backward else rows[:kept])
    assert kept >= min(1, len(rows))
    assert kept <= 1 or sum(len(row.body) for row in page.rows) <= MOST
    if kept < len(rows):
        left_out = rows[len(rows) - kept - 1] if backward else rows[kept]
        assert sum(len(row.body) for row in (*page.rows, left_out)) > MOST
    assert page.has_previous == (has_previous or (backward and kept < len(rows)))
    assert page.has_next == (has_next or (not backward and kept < len(rows)))
