"""The event log of any store: each written event is returned once, in order, page by page."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from indexing.errors import StaleKeyError, UnknownRepositoryError
from indexing.models.events import (
    MOST_PAGE_BYTES,
    EventKey,
    EventQuery,
    EventRow,
    Outcome,
    StoredEvent,
)
from indexing.models.paging import Anchor, Page
from indexing.names import RepositoryName
from indexing.store.interface import EventOutcome, Store
from service.schemas.limits import MAX_REF_LENGTH
from tests.builders import FOREIGN, GADGETS, NOON, WIDGETS, after, make_event
from tests.contracts.conftest import on_stores_and_one_cache
from tests.contracts.walking import a_few_times, walk_backwards, walk_both_ways, walk_forwards

pytestmark = on_stores_and_one_cache


def ask(**filters: Any) -> EventQuery:
    asked: dict[str, Any] = {
        "repository": WIDGETS,
        "received_from": NOON - timedelta(days=1),
        "received_to": NOON + timedelta(days=1),
    }
    return EventQuery(**(asked | filters))


async def write(store: Store, *events: StoredEvent) -> list[EventOutcome]:
    for name in {event.repository for event in events}:
        await store.ensure_repository(name)
    return list(await store.write_events(events))


async def ids(store: Store, query: EventQuery, limit: int = 100) -> list[int]:
    return [row.key.id for row in (await store.list_events(query, Anchor(), limit)).rows]


async def test_events_come_newest_first_and_equal_times_by_id(store: Store) -> None:
    await write(store, make_event(1), make_event(3), make_event(2), make_event(0, after(seconds=1)))
    assert await ids(store, ask()) == [0, 3, 2, 1]


async def test_an_event_comes_back_to_the_byte(store: Store) -> None:
    event = make_event(2**63 - 1, metadata={"message": "naïve “quotes” 🧪", "n": 2**63})
    await write(store, event)
    (row,) = (await store.list_events(ask(), Anchor(), 1)).rows
    assert (row.key, row.body) == (event.key, event.body)


async def test_the_range_holds_its_first_moment_and_not_its_last(store: Store) -> None:
    await write(store, make_event(1, NOON), make_event(2, after(seconds=1)))
    query = ask(received_from=NOON, received_to=after(seconds=1))
    assert await ids(store, query) == [1]


async def test_times_are_distinguished_by_the_microsecond(store: Store) -> None:
    await write(store, make_event(1, NOON), make_event(1, after(microseconds=1)))
    assert await ids(store, ask(received_from=after(microseconds=1))) == [1]


async def test_the_same_event_again_changes_nothing(store: Store) -> None:
    event = make_event(1)
    assert await write(store, event) == [EventOutcome.WRITTEN]
    assert await write(store, event, event) == [EventOutcome.UNCHANGED] * 2
    assert await ids(store, ask()) == [1]


async def test_another_event_under_a_taken_key_is_left_out(store: Store) -> None:
    first = make_event(1, trigger="first")
    outcomes = await write(store, first, make_event(1, trigger="second"), make_event(2))
    assert outcomes == [EventOutcome.WRITTEN, EventOutcome.CONFLICT, EventOutcome.WRITTEN]
    assert (await store.list_events(ask(), Anchor(), 10)).rows[1].body == first.body


async def test_one_id_may_stand_at_two_times_and_in_two_repositories(store: Store) -> None:
    events = [make_event(1), make_event(1, after(hours=1)), make_event(1, repository=GADGETS)]
    assert await write(store, *events) == [EventOutcome.WRITTEN] * 3


async def test_events_of_an_unknown_repository_are_refused(store: Store) -> None:
    with pytest.raises(UnknownRepositoryError):
        await store.write_events([make_event(1)])


async def test_repositories_do_not_see_each_other_and_case_does_not_matter(store: Store) -> None:
    await write(store, make_event(1), make_event(2, repository=FOREIGN))
    assert await ids(store, ask(repository=RepositoryName("ACME", "Widgets"))) == [1]
    assert await ids(store, ask(repository=FOREIGN)) == [2]
    assert await ids(store, ask(repository=RepositoryName("no", "body"))) == []


# Longer than an index accepts.
LONG = "t" * 256

FILTERS: list[tuple[dict[str, Any], list[int]]] = [
    ({}, [8, 7, 6, 5, 4, 3, 2, 1]),
    ({"pull_requests": (7,)}, [8, 5, 3, 1]),
    ({"pull_requests": (7, 8, 7)}, [8, 6, 5, 3, 2, 1]),
    ({"pull_requests": (9,)}, []),
    ({"event_types": ("action.merge",)}, [7, 5, 2, 1]),
    ({"event_types": ("action.merge", "action.rebase", "action.merge")}, [7, 6, 5, 4, 3, 2, 1]),
    ({"base_ref": "main"}, [8, 6, 2, 1]),
    ({"base_ref": "release"}, [5, 4, 3]),
    ({"base_ref": "nowhere"}, []),
    ({"pull_requests": (7, 8), "event_types": ("action.merge",)}, [5, 2, 1]),
    ({"event_types": ("action.merge", "action.squash"), "base_ref": "main"}, [8, 2, 1]),
    (
        {"pull_requests": (7,), "event_types": ("action.rebase",), "base_ref": "release"},
        [3],
    ),
    ({"triggers": ("rule",)}, [7, 5, 3, 1]),
    ({"triggers": ("rule", "")}, [8, 7, 5, 3, 1]),
    ({"triggers": (LONG,)}, []),
    ({"triggers_excluded": ("rule",)}, [8, 6, 4, 2]),
    ({"triggers_excluded": ("rule", "")}, [6, 4, 2]),
    ({"triggers": ("rule",), "triggers_excluded": ("rule",)}, []),
    ({"outcomes": (Outcome.FAILURE,)}, [7, 2]),
    ({"outcomes": (Outcome.FAILURE, Outcome.SUCCESS)}, [7, 6, 3, 2]),
    ({"outcomes_excluded": (Outcome.FAILURE, Outcome.NEUTRAL)}, [6, 5, 3, 1]),
    ({"outcomes_excluded": tuple(Outcome)}, []),
    ({"outcomes": (Outcome.FAILURE,), "outcomes_excluded": (Outcome.FAILURE,)}, []),
    ({"event_types_excluded": ("action.merge",)}, [8, 6, 4, 3]),
    (
        {
            "event_types": ("action.merge", "action.squash"),
            "event_types_excluded": ("action.merge",),
        },
        [8],
    ),
    ({"pull_requests_excluded": (7,)}, [7, 6, 4, 2]),
    ({"pull_requests": (7, 8), "pull_requests_excluded": (7,)}, [6, 2]),
    (
        {
            "outcomes_excluded": (Outcome.FAILURE,),
            "event_types_excluded": ("action.squash",),
            "triggers_excluded": ("rule",),
            "pull_requests_excluded": (8,),
            "base_ref": "release",
        },
        [4],
    ),
]


async def test_filters_combine(store: Store) -> None:
    rows = [
        (1, "action.merge", 7, "main", "rule", Outcome.PENDING),
        (2, "action.merge", 8, "main", "person", Outcome.FAILURE),
        (3, "action.rebase", 7, "release", "rule", Outcome.SUCCESS),
        (4, "action.rebase", None, "release", LONG, Outcome.NEUTRAL),
        (5, "action.merge", 7, "release", "rule", Outcome.PENDING),
        (6, "action.rebase", 8, "main", "Rule", Outcome.SUCCESS),
        (7, "action.merge", None, None, "rule", Outcome.FAILURE),
        (8, "action.squash", 7, "main", "", Outcome.NEUTRAL),
    ]
    await write(
        store,
        *(
            make_event(
                n,
                event_type=kind,
                pull_request=pull,
                base_ref=base,
                trigger=trigger,
                outcome=outcome,
            )
            for n, kind, pull, base, trigger, outcome in rows
        ),
    )
    for filters, expected in FILTERS:
        assert await ids(store, ask(**filters)) == expected, filters


@pytest.mark.parametrize("character", ["b", "é", "🧪"])
async def test_the_longest_base_ref_is_found_whatever_its_characters(
    store: Store, character: str
) -> None:
    longest = character * MAX_REF_LENGTH
    await write(store, make_event(1, base_ref=longest), make_event(2, base_ref=longest[1:]))
    assert await ids(store, ask(base_ref=longest)) == [1]
    assert await ids(store, ask(base_ref=longest[1:])) == [2]


@pytest.mark.parametrize("limit", [1, 2, 7, 100])
@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"pull_requests": (1, 2)},
        {"event_types": ("action.rebase",)},
        {"outcomes": (Outcome.NEUTRAL,)},
        {"triggers_excluded": ("person",)},
    ],
    ids=str,
)
async def test_a_walk_meets_every_row_once_while_others_are_written(
    store: Store, limit: int, filters: dict[str, Any]
) -> None:
    random_ = random.Random(limit)
    # Many events at one time, and pairs around it.
    moments = [NOON] * 10 + [after(seconds=random_.randrange(6)) for _ in range(10)]
    events = [
        make_event(n, at, pull_request=random_.choice([1, 2, 3])) for n, at in enumerate(moments)
    ]
    await write(store, *events)
    wanted = sorted(
        (e.key for e in events if "pull_requests" not in filters or e.pull_request in (1, 2)),
        reverse=True,
    )
    newcomers = iter(range(1_000, 100_000))

    async def read(anchor: Anchor[EventKey]) -> Page[EventRow]:
        return await store.list_events(ask(**filters), anchor, limit)

    async def write_more() -> None:
        at = after(seconds=random_.randrange(-5, 15))
        await write(store, make_event(next(newcomers), at, pull_request=1))

    forwards = [r.key for r in await walk_forwards(read, a_few_times(write_more))]
    assert [key for key in forwards if key.id < 1_000] == wanted
    assert forwards == sorted(set(forwards), reverse=True)
    backwards = [r.key for r in await walk_backwards(read, a_few_times(write_more))]
    assert [key for key in backwards if key.id < 1_000] == wanted
    assert backwards == sorted(set(backwards), reverse=True)


async def test_a_thousand_events_of_one_moment_are_walked_both_ways(store: Store) -> None:
    await write(store, *(make_event(n) for n in range(1_000)))

    async def read(anchor: Anchor[EventKey]) -> Page[EventRow]:
        return await store.list_events(ask(), anchor, 99)

    expected = list(range(999, -1, -1))
    assert [row.key.id for row in await walk_both_ways(read)] == expected


async def test_a_log_of_busy_and_quiet_months_is_walked_both_ways(store: Store) -> None:
    busy = [after(minutes=n) for n in range(20)]
    quiet = [after(days=7 * n) for n in range(1, 9)]
    events = [make_event(n, at) for n, at in enumerate((*busy, *quiet, *(at for at in busy[:5])))]
    await write(store, *events)
    query = ask(received_from=after(days=-9), received_to=after(days=99))
    wanted = sorted((event.key for event in events), reverse=True)

    async def read(anchor: Anchor[EventKey]) -> Page[EventRow]:
        return await store.list_events(query, anchor, 3)

    assert [row.key for row in await walk_both_ways(read)] == wanted


async def test_what_retention_dropped_cannot_be_continued_from(store: Store) -> None:
    events = [make_event(n, after(seconds=n)) for n in range(6)]
    await write(store, *events)
    await store.prune(after(seconds=3), NOON)
    assert await ids(store, ask()) == [5, 4, 3]
    for n in range(3):
        with pytest.raises(StaleKeyError):
            await store.list_events(ask(), Anchor(events[n].key), 2)
    page = await store.list_events(ask(), Anchor(events[4].key), 2)
    assert [row.key.id for row in page.rows] == [3]


async def test_pruning_to_an_earlier_moment_does_not_bring_rows_back(store: Store) -> None:
    events = [make_event(n, after(seconds=n)) for n in range(3)]
    await write(store, *events)
    await store.prune(after(seconds=2), NOON)
    await store.prune(NOON, NOON)
    with pytest.raises(StaleKeyError):
        await store.list_events(ask(), Anchor(events[1].key), 2)


async def test_what_is_loaded_again_outlives_a_prune_that_reaches_less_far(store: Store) -> None:
    old = make_event(1, after(days=-50))
    await write(store, old, make_event(2, after(days=-1)))
    query = ask(received_from=after(days=-100))
    await store.prune(after(days=-30), NOON)
    assert await ids(store, query) == [2]
    assert await write(store, old) == [EventOutcome.WRITTEN]
    assert (await store.prune(after(days=-90), NOON)).events == 0
    assert await ids(store, query) == [2, 1]


async def test_a_call_may_write_events_of_very_many_months(store: Store) -> None:
    # More than a mebibyte, and more months than one refresh names.
    moments = [datetime(2015 + n // 12, n % 12 + 1, 1, tzinfo=UTC) for n in range(30)]
    events = [make_event(n, at, metadata={"x": "y" * 54_000}) for n, at in enumerate(moments)]
    assert await write(store, *events) == [EventOutcome.WRITTEN] * 30
    query = ask(received_from=moments[0], received_to=moments[-1])
    assert await ids(store, query, 1_000) == [*range(28, -1, -1)]


async def test_a_page_of_large_events_ends_early_and_a_walk_misses_none(store: Store) -> None:
    """Otherwise one page could have a hundred megabytes."""
    for start in range(0, 24, 8):
        large = [
            make_event(n, after(seconds=n), metadata={"message": "x" * 1_000_000})
            for n in range(start, start + 8)
        ]
        await write(store, *large)
    page = await store.list_events(ask(), Anchor(), 100)
    assert sum(len(row.body) for row in page.rows) <= MOST_PAGE_BYTES
    assert [row.key.id for row in page.rows] == [23, 22, 21, 20, 19, 18, 17, 16]
    assert page.has_next
    anchor: Anchor[EventKey] = Anchor()
    walked: list[int] = []
    while True:
        page = await store.list_events(ask(), anchor, 20)
        assert page.has_previous is bool(walked)
        walked += [row.key.id for row in page.rows]
        if not page.has_next:
            break
        anchor = Anchor(page.rows[-1].key)
    assert walked == [*range(23, -1, -1)]
    last = await store.list_events(ask(), Anchor(backward=True), 20)
    assert [row.key.id for row in last.rows] == [7, 6, 5, 4, 3, 2, 1, 0]
    assert (last.has_previous, last.has_next) == (True, False)
    before = await store.list_events(ask(), Anchor(last.rows[0].key, backward=True), 20)
    assert [row.key.id for row in before.rows] == [15, 14, 13, 12, 11, 10, 9, 8]
    assert (before.has_previous, before.has_next) == (True, True)
