"""The counts from a table of a day are those of its events, for any filters and hours."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indexing.store.elasticsearch import event_tables
from indexing.store.elasticsearch.event_conditions import PULL_REQUEST, Condition
from indexing.store.elasticsearch.event_tables import (
    COMBINED,
    HOURS_A_DAY,
    Combination,
    DayTable,
    TableMaker,
)

VALUES = (None, "", "a", "ü\0🧪")
Event = tuple[Combination, int, int | None]

values = st.sampled_from(VALUES)
events = st.tuples(
    st.tuples(*[values] * len(COMBINED)), st.integers(0, 23), st.none() | st.integers(1, 9)
)
conditions = st.builds(
    Condition,
    st.sampled_from(COMBINED),
    st.frozensets(st.sampled_from(VALUES[1:])),
    st.booleans(),
) | st.builds(Condition, st.just(PULL_REQUEST), st.frozensets(st.integers(1, 10)), st.booleans())
# A query has at most one filter of each field.
filters = st.lists(conditions, max_size=5, unique_by=lambda each: each.field)
ranges = st.tuples(st.integers(0, 24), st.integers(0, 24)).map(lambda ends: range(*sorted(ends)))


def table_of(some: list[Event]) -> DayTable:
    maker = TableMaker()
    for event, count in Counter(some).items():
        maker.add(*event, count)
    return maker.make(7)


def count(table: DayTable, asked: list[Condition], hours: range) -> list[Counter[Any]]:
    """Return the counts by hour, by each combined field, and by pull request."""
    found: list[Counter[Any]] = [Counter() for _ in range(2 + len(COMBINED))]
    for part in table.parts or ():
        counted = part.count(asked, hours)
        found[0].update(dict(enumerate(counted.hours)))
        for counter, name in zip(found[1:], COMBINED, strict=False):
            counter.update(counted.values[name])
        found[-1].update(dict(counted.pulls))
    return [Counter({value: n for value, n in each.items() if n}) for each in found]


def count_events(some: list[Event], asked: list[Condition], hours: range) -> list[Counter[Any]]:
    """Return the same as `count` by looking at each event."""
    matching = []
    for combination, hour, pull in some:
        fields = dict(zip(COMBINED, combination, strict=True)) | {PULL_REQUEST: pull}
        matches = ((fields[each.field] in each.values) != each.is_negated for each in asked)
        if hour in hours and all(matches):
            matching.append((hour, *combination, pull))
    columns = zip(*matching, strict=True) if matching else [()] * (2 + len(COMBINED))
    return [Counter(value for value in column if value is not None) for column in columns]


@pytest.mark.parametrize("most_codes", [3, 254], ids=["many parts", "one part"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(events, max_size=60), filters, ranges | st.just(range(HOURS_A_DAY)))
def test_a_table_has_the_counts_of_its_events(
    monkeypatch: pytest.MonkeyPatch,
    most_codes: int,
    some: list[Event],
    asked: list[Condition],
    hours: range,
) -> None:
    monkeypatch.setattr(event_tables, "_MOST_CODES", most_codes)
    table = table_of(some)
    assert table.of == len(some)
    stored = DayTable.decode(table.day, table.of, table.encode())
    assert count(stored, asked, hours) == count_events(some, asked, hours)


def test_a_day_may_have_more_combinations_than_a_byte_has_values() -> None:
    some: list[Event] = [((f"t{n}", "success", None, "main"), n % 24, n % 5) for n in range(1_000)]
    table = table_of(some)
    assert len(table.parts or ()) == 4
    stored = DayTable.decode(table.day, table.of, table.encode())
    for asked in (
        [],
        [Condition("type", frozenset({"t253", "t254", "t255", "t999"}), is_negated=True)],
        [Condition(PULL_REQUEST, frozenset({2}), is_negated=False)],
    ):
        for hours in (range(HOURS_A_DAY), range(3, 4)):
            assert count(stored, asked, hours) == count_events(some, asked, hours)


def test_a_table_that_is_too_large_is_none() -> None:
    assert DayTable.decode(7, 500, DayTable(7, 500, None).encode()) == DayTable(7, 500, None)
