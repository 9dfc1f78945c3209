"""Polling the newest page of the event log: it is read again only if it may have changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from indexing.timestamps import format_timestamp
from service.cache.keys import EVENTS_LIFETIME, UNSEEN_EVENTS_LIFETIME
from tests.builders import GADGETS, after, make_event
from tests.service.conftest import on_every_stack
from tests.service.front_door import LOGS, Answer, FrontDoor


@pytest.fixture
def reads(door: FrontDoor, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Record the queries for pages of the log that reach the store."""
    read, asked = door.reader.list_events, list[Any]()

    async def count(query: Any, *rest: Any) -> Any:
        asked.append(query)
        return await read(query, *rest)

    monkeypatch.setattr(door.reader, "list_events", count)
    return asked


@pytest.fixture(autouse=True)
async def filled(door: FrontDoor) -> None:
    await write(door, [1, 2, 3])
    door.clock.now = after(hours=1)


async def write(door: FrontDoor, numbers: Sequence[int], minutes: int | None = None) -> None:
    await door.store.write_events(
        [make_event(n, after(minutes=n if minutes is None else minutes)) for n in numbers]
    )


async def ids(door: FrontDoor, target: str = LOGS) -> list[int]:
    answer = await door.get(target)
    return [event["id"] for event in answer.json["events"]]


async def poll(door: FrontDoor, known: Answer, target: str = LOGS) -> Answer:
    return await door.get(target, **{"If-None-Match": known.headers["ETag"]})


@on_every_stack
async def test_a_poll_without_new_events_reads_nothing_and_gets_304(
    door: FrontDoor, reads: list[Any]
) -> None:
    first = await door.get(LOGS)
    other = await door.new_key()
    assert (await door.get(LOGS, key=other)).body == first.body
    assert (await poll(door, first)).status == 304
    assert len(reads) == 1
    # It is read again after a while, and is the same page although its range has moved.
    door.clock.now = after(hours=1, seconds=EVENTS_LIFETIME)
    later = await poll(door, first)
    assert (later.status, later.headers["ETag"]) == (304, first.headers["ETag"])
    assert len(reads) == 2
    assert reads[1].received_to == door.clock.now


@on_every_stack
async def test_what_arrives_shows_at_the_next_poll(door: FrontDoor) -> None:
    first = await door.get(LOGS)
    await write(door, [4])
    second = await poll(door, first)
    assert (second.status, [row["id"] for row in second.json["events"]]) == (200, [4, 3, 2, 1])
    # An older event shows too, and events that the filters exclude do not.
    narrow = f"{LOGS}?pull_request=7"
    assert await ids(door, narrow) == []
    await door.store.write_events([make_event(5, after(minutes=-5), pull_request=7)])
    assert await ids(door, narrow) == [5]


@on_every_stack
async def test_what_arrives_elsewhere_changes_nothing(door: FrontDoor, reads: list[Any]) -> None:
    await door.get(LOGS)
    await door.store.ensure_repository(GADGETS)
    await door.store.write_events([make_event(9, after(minutes=9), repository=GADGETS)])
    await door.get(LOGS)
    assert len(reads) == 1


@on_every_stack
async def test_an_event_leaves_the_page_on_the_minute(door: FrontDoor) -> None:
    door.clock.now = after(days=1, minutes=1, seconds=-1)
    assert await ids(door) == [3, 2, 1]
    door.clock.now = after(days=1, minutes=1)
    assert await ids(door) == [3, 2, 1]
    door.clock.now = after(days=1, minutes=1, microseconds=1)
    assert await ids(door) == [3, 2]


@on_every_stack
async def test_a_page_that_appears_behind_the_first_changes_its_tag(door: FrontDoor) -> None:
    target = f"{LOGS}?per_page=3"
    first = await door.get(target)
    assert "next" not in first.links
    await write(door, [0], minutes=-9)
    second = await poll(door, first, target)
    assert (second.status, second.body) == (200, first.body)
    assert await ids(door, second.links["next"]) == [0]


@on_every_stack
async def test_the_links_of_a_cached_page_walk_the_range_that_it_shows(
    door: FrontDoor, reads: list[Any]
) -> None:
    target = f"{LOGS}?per_page=2"
    await door.get(target)
    door.clock.now = after(hours=1, seconds=UNSEEN_EVENTS_LIFETIME / 2)
    pages = await door.walk(target, "events")
    assert [[row["id"] for row in page] for page in pages] == [[3, 2], [1]]
    assert {query.received_to for query in reads} == {after(hours=1)}


@on_every_stack
async def test_pages_of_different_ranges_and_filters_are_kept_apart(door: FrontDoor) -> None:
    start, end = format_timestamp(after(minutes=2)), format_timestamp(after(minutes=3))
    for _ in range(2):
        assert await ids(door, f"{LOGS}?received_from={start}") == [3, 2]
        assert await ids(door, f"{LOGS}?received_to={end}") == [2, 1]
        assert await ids(door, f"{LOGS}?received_from={start}&received_to={end}") == [2]
        assert await ids(door, f"{LOGS}?per_page=1") == [3]
        assert await ids(door, f"{LOGS}?not_pull_request=1") == await ids(door)


@pytest.mark.parametrize("stack", ["elasticsearch"], indirect=True)
async def test_a_write_without_invalidation_shows_within_a_second(door: FrontDoor) -> None:
    assert await ids(door) == [3, 2, 1]
    await door.reader.write_events([make_event(4, after(minutes=4))])  # type: ignore[attr-defined]
    door.clock.now = after(hours=1, seconds=UNSEEN_EVENTS_LIFETIME)
    assert await ids(door) == [4, 3, 2, 1]
