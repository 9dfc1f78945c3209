"""Events in the order of arrival: none is missed, whatever its date."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection

import pytest

from indexing.identifiers import derive_repository_id
from indexing.models.arrivals import MOST_BYTES, Arrival, ArrivalKey
from indexing.models.events import StoredEvent
from indexing.names import RepositoryName
from indexing.store.elasticsearch import arrivals
from indexing.store.interface import Store
from tests.builders import FOREIGN, GADGETS, NOON, WIDGETS, after, make_event
from tests.contracts.conftest import on_stores_and_one_cache

# The cache contains no arrivals.
pytestmark = on_stores_and_one_cache


class Clock:
    """The clock of arrival times, which a test advances instead of waiting."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> int:
        return time.time_ns() // 1_000 + int(self.ahead * 1_000_000)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(arrivals, "_now", made)
    return made


async def write(store: Store, *events: StoredEvent) -> None:
    for name in {event.repository for event in events}:
        await store.ensure_repository(name)
    await store.write_events(events)


async def find_end(store: Store, clock: Clock) -> ArrivalKey:
    """Return the position after all that is written; no write may be in progress."""
    clock.ahead += arrivals.SETTLING_SECONDS
    return await store.find_newest_arrival()


async def follow(
    store: Store,
    position: ArrivalKey,
    count: int,
    limit: int = 100,
    repositories: Collection[RepositoryName] | None = None,
    *,
    clock: Clock | None = None,
) -> tuple[list[Arrival], ArrivalKey]:
    """Follow what arrives until there are so many; what comes twice counts once.

    With a clock, no write may be in progress: what is written counts as settled.
    """
    if clock is not None:
        clock.ahead += arrivals.SETTLING_SECONDS
    found: dict[bytes, Arrival] = {}
    deadline = time.monotonic() + 30
    while len(found) < count:
        assert time.monotonic() < deadline, [*found]
        page = await store.list_arrivals(position, limit, repositories)
        assert len(page.rows) <= limit
        assert page.until >= position
        assert page.rows or page.is_all or repositories
        assert not (page.is_all and len(page.rows) == limit)
        for row in page.rows:
            found.setdefault(row.body, row)
        position = page.until
        if page.is_all:
            await asyncio.sleep(0.01)
    return [*found.values()], position


@pytest.mark.parametrize("limit", [1, 3, 100])
async def test_events_come_as_they_arrive_and_not_by_their_dates(
    store: Store, clock: Clock, limit: int
) -> None:
    await write(store, make_event(1))
    position = await find_end(store, clock)
    first = [make_event(2, after(days=-200)), make_event(3), make_event(4, after(hours=-1))]
    await write(store, *first)
    await write(store, make_event(1), make_event(5, after(days=-1)))
    found, position = await follow(store, position, 4, limit, clock=clock)
    assert [row.key.id for row in found] == [2, 3, 4, 5]
    assert [row.body for row in found[:3]] == [event.body for event in first]
    assert found[0].type == first[0].type
    await write(store, make_event(6, after(days=-300)))
    found, _ = await follow(store, position, 1, limit, clock=clock)
    assert [row.key.id for row in found] == [6]


async def test_it_goes_on_after_any_event(store: Store, clock: Clock) -> None:
    position = await store.find_newest_arrival()
    await write(store, *(make_event(n, after(days=-n)) for n in range(7)))
    await write(store, *(make_event(n, after(days=-n)) for n in range(7, 14)))
    found, _ = await follow(store, position, 14, clock=clock)
    for number, row in enumerate(found[:-1]):
        rest, _ = await follow(store, row.key, 13 - number, 4)
        assert rest == found[number + 1 :]
    assert sorted(row.key for row in found) == [row.key for row in found]


async def test_some_repositories_can_be_followed_alone(store: Store, clock: Clock) -> None:
    await write(store, make_event(0), make_event(0, repository=FOREIGN))
    position = await find_end(store, clock)
    for n in range(1, 9):
        await write(store, make_event(n), make_event(n, repository=(GADGETS, FOREIGN)[n % 2]))
    every, _ = await follow(store, position, 16, clock=clock)
    names = {derive_repository_id(name): name for name in (WIDGETS, GADGETS, FOREIGN)}
    assert sorted((names[row.repository_id].key, row.key.id) for row in every) == sorted(
        [(WIDGETS.key, n) for n in range(1, 9)]
        + [((GADGETS, FOREIGN)[n % 2].key, n) for n in range(1, 9)]
    )
    own, _ = await follow(store, position, 4, 3, [RepositoryName("UMBRELLA", "widgets")])
    assert own == [row for row in every if names[row.repository_id] == FOREIGN]
    unknown = RepositoryName("no", "body")
    assert (await store.list_arrivals(position, 10, [unknown])).rows == ()
    for limit in (1, 3, 100):
        some, _ = await follow(store, position, 8, limit, [FOREIGN, GADGETS, unknown])
        assert some == [row for row in every if names[row.repository_id] != WIDGETS]


async def test_what_arrives_after_retention_is_not_missed(store: Store, clock: Clock) -> None:
    await write(store, make_event(1), make_event(2, after(days=-40)))
    position = await find_end(store, clock)
    # The newest arrival is the oldest event.
    await store.prune(after(days=-30), NOON)
    await write(store, make_event(3))
    found, position = await follow(store, position, 1, clock=clock)
    assert [row.key.id for row in found] == [3]
    await store.prune(after(days=30), NOON)
    await write(store, make_event(4, after(days=31)), make_event(5, after(days=32)))
    found, _ = await follow(store, position, 2, clock=clock)
    assert [row.key.id for row in found] == [4, 5]


async def test_several_writers_at_once_lose_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Long enough for a slow write, and shorter than a service waits.
    monkeypatch.setattr(arrivals, "SETTLING_SECONDS", 1.5)
    await store.ensure_repository(WIDGETS)
    position = await store.find_newest_arrival()

    async def load(first: int) -> None:
        for n in range(first, first + 100, 10):
            await store.write_events([make_event(m, after(hours=-m)) for m in range(n, n + 10)])

    loads = asyncio.gather(*(load(100 * n) for n in range(3)))
    found, _ = await follow(store, position, 300, 50)
    await loads
    assert sorted(row.key.id for row in found) == list(range(300))


async def test_a_read_of_large_events_takes_little_memory(store: Store, clock: Clock) -> None:
    """A thousand streams may read them at the same time."""
    position = await store.find_newest_arrival()
    large = [
        make_event(n, after(minutes=n), metadata={"message": "x" * 100_000}) for n in range(12)
    ]
    huge = make_event(12, after(minutes=12), metadata={"message": "x" * 900_000})
    await write(store, *large, huge, make_event(13, after(minutes=13)))
    clock.ahead += arrivals.SETTLING_SECONDS
    seen: list[int] = []
    while len(seen) < 14:
        page = await store.list_arrivals(position, 500)
        assert sum(len(row.body) for row in page.rows) <= MOST_BYTES or len(page.rows) == 1
        assert page.rows
        seen += [row.key.id for row in page.rows]
        position = page.until
    assert seen == [*range(14)]
