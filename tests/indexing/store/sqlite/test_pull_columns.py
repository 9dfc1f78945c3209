"""Columns of events give the same counts by pull request as the events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing.store.sqlite.pull_columns import count_pulls, make_columns

FIELDS = ("hour", "type", "outcome", "branch", "trigger")

Event = tuple[int, tuple[Any, ...]]
events = st.lists(
    st.tuples(
        st.integers(-(2**63), 2**63 - 1) | st.integers(1, 4),
        st.tuples(
            st.integers(0, 23),
            st.sampled_from(["merge", "squash"]),
            st.integers(0, 3),
            st.none() | st.sampled_from(["main", "", "🧪"]),
            st.none() | st.text(max_size=2),
        ),
    ),
    max_size=60,
)


def check(rows: Sequence[Event], filters: dict[str, Callable[[Any], bool]]) -> None:
    columns = make_columns(FIELDS, rows)
    assert columns is not None
    expected: Counter[int] = Counter()
    for pull, values in rows:
        expected[pull] += all(fits(values[FIELDS.index(field)]) for field, fits in filters.items())
    assert sorted(count_pulls(columns, filters)) == sorted(expected.items())


@given(
    events,
    st.fixed_dictionaries(
        {},
        optional={
            "hour": st.builds(range, st.integers(0, 24), st.integers(0, 24)).map(
                lambda hours: hours.__contains__
            ),
            "type": st.just(lambda kind: kind == "merge"),
            "outcome": st.sampled_from([lambda n: n > 1, lambda _: False, lambda _: True]),
            "branch": st.just(lambda branch: branch != "main"),
            "trigger": st.just(lambda trigger: trigger is not None and trigger < "M"),
        },
    ),
)
def test_any_events_are_counted_under_any_filters(
    rows: list[Event], filters: dict[str, Callable[[Any], bool]]
) -> None:
    check(rows, filters)


@pytest.mark.parametrize("count", [255, 256, 257, 1_000])
def test_pull_requests_may_have_more_events_than_a_byte_counts(count: int) -> None:
    rows = [
        (pull, (n % 24, "merge", n % 4, None, f"t{n % 3}"))
        for pull, events_of_it in ((1, count), (2, 3), (3, count), (4, 255))
        for n in range(events_of_it)
    ]
    check(rows, {})
    filters = {"outcome": lambda n: n < 3, "trigger": lambda name: name == "t1"}
    check(rows, {**filters, "hour": range(3, 9).__contains__})


@pytest.mark.parametrize("count", [255, 256, 257, 512, 2_000])
def test_a_field_may_have_more_values_than_a_byte(count: int) -> None:
    rows = [
        (n % 7, (n % 24, "merge", n % 4, f"b{n % count}", f"t{n % 90}")) for n in range(2 * count)
    ]
    few, last = {"b0", "b254", "b255", "b256"}, {f"b{count - 1}", "none"}
    for filters in (
        {"branch": lambda name: name in few},
        {"branch": lambda name: name not in few},
        {"branch": lambda name: name in last},
        {"branch": lambda name: name not in last, "outcome": lambda n: n != 2},
        {"trigger": lambda name: name == "t3", "branch": lambda name: name not in few},
    ):
        check(rows, filters)
        check(rows, {**filters, "hour": range(5, 7).__contains__})


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([f"b{n}" for n in range(4_097)], id="many"),
        pytest.param([f"{n}".ljust(255, "x") for n in range(2_000)], id="long"),
    ],
)
def test_a_field_with_too_many_values_has_no_columns(values: list[str]) -> None:
    rows = [(1, (0, "merge", 0, value, None)) for value in values]
    assert make_columns(FIELDS, rows) is None
    assert make_columns(FIELDS, rows[:500]) is not None
