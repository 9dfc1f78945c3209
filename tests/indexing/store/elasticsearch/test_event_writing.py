"""Small writes of events share requests, and nothing else; large ones fit the cluster's pace."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from indexing.errors import StoreUnavailableError, UnknownRepositoryError
from indexing.names import RepositoryName
from indexing.store import ElasticsearchPlace
from indexing.store.elasticsearch import arrivals, event_writing
from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.indices import creation, time_slices
from indexing.store.elasticsearch.store import ElasticsearchStore
from indexing.store.interface import EventOutcome
from tests.builders import NOON, WIDGETS, after, make_event
from tests.indexing.store.elasticsearch.inspection import ask, cluster_of, event_ids


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each kind of request was sent."""
    sent: Counter[str] = Counter()
    request = Connection.request

    async def count(self: Connection, method: str, target: str, *args: Any, **more: Any) -> Any:
        sent[target.partition("?")[0].rpartition("/")[2]] += 1
        return await request(self, method, target, *args, **more)

    monkeypatch.setattr(Connection, "request", count)
    return sent


async def test_concurrent_calls_share_requests_and_each_event_is_visible_at_its_answer(
    store: ElasticsearchStore, requests: Counter[str]
) -> None:
    await store.ensure_repository(WIDGETS)
    await store.write_events([make_event(1_000)])
    requests.clear()

    async def write(number: int) -> None:
        assert await store.write_events([make_event(number)]) == [EventOutcome.WRITTEN]
        assert number in await event_ids(store)

    await asyncio.gather(*(write(number) for number in range(40)))
    assert requests["_bulk"] <= 10
    assert requests["_refresh"] <= 10


async def test_events_of_calls_at_once_keep_their_own_outcomes(store: ElasticsearchStore) -> None:
    await store.ensure_repository(WIDGETS)
    await store.write_events([make_event(1)])
    elsewhere = make_event(9, repository=RepositoryName("nobody", "knows"))
    written, unchanged, conflict, unknown, twice = await asyncio.gather(
        store.write_events([make_event(2), make_event(3)]),
        store.write_events([make_event(1)]),
        store.write_events([make_event(1, base_ref="other"), make_event(4)]),
        store.write_events([make_event(5), elsewhere]),
        store.write_events([make_event(2)]),
        return_exceptions=True,
    )
    assert [unchanged, conflict] == [
        [EventOutcome.UNCHANGED],
        [EventOutcome.CONFLICT, EventOutcome.WRITTEN],
    ]
    assert isinstance(written, list)
    assert isinstance(twice, list)
    assert Counter([*written, *twice]) == {EventOutcome.WRITTEN: 2, EventOutcome.UNCHANGED: 1}
    assert isinstance(unknown, UnknownRepositoryError)
    assert await event_ids(store) == [4, 3, 2, 1]


async def test_a_large_write_keeps_the_outcomes_in_order(store: ElasticsearchStore) -> None:
    await store.ensure_repository(WIDGETS)
    stored = [make_event(number) for number in range(0, 2_500, 2)]
    assert await store.write_events(stored) == [EventOutcome.WRITTEN] * 1_250
    written = await store.write_events([make_event(number) for number in range(2_500)])
    assert written == [EventOutcome.UNCHANGED, EventOutcome.WRITTEN] * 1_250


async def test_a_slow_write_is_followed_by_a_smaller_one(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.ensure_repository(WIDGETS)
    # A refresh ends a write, which may take several requests.
    sizes = [0]
    request = Connection.request
    clock = 0.0

    async def slow(self: Connection, method: str, target: str, *args: Any, **more: Any) -> Any:
        nonlocal clock
        answer = await request(self, method, target, *args, **more)
        if target.startswith("/_bulk"):
            clock += 1 if sizes == [0] else 0
            sizes[-1] += len(answer["items"])
        elif "/_refresh" in target:
            sizes.append(0)
        return answer

    monkeypatch.setattr(Connection, "request", slow)
    # The clock of the pace, so that nothing depends on how busy this machine is.
    monkeypatch.setattr(event_writing, "time", SimpleNamespace(monotonic=lambda: clock))
    monkeypatch.setattr(arrivals, "SETTLING_SECONDS", 600)
    written = await store.write_events([make_event(number) for number in range(3_800)])
    assert written == [EventOutcome.WRITTEN] * 3_800
    # A write should take 0.75 s.
    assert sizes[0] == 2_000
    assert sizes[1] <= 1_500


@pytest.mark.fresh_indices
async def test_calls_that_need_a_new_month_delay_no_others(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.ensure_repository(WIDGETS)
    await store.write_events([make_event(1)])
    begun: asyncio.Queue[str] = asyncio.Queue()
    may_create = asyncio.Event()
    create = creation.create_index

    async def create_late(connection: Connection, name: str) -> None:
        begun.put_nowait(name)
        await may_create.wait()
        await create(connection, name)

    monkeypatch.setattr(time_slices, "create_index", create_late)
    async with asyncio.TaskGroup() as tasks, asyncio.timeout(60):
        old = []
        # More of them than there are rounds at once.
        for number in (2, 3, 4):
            event = make_event(number, NOON.replace(year=2016, month=number))
            old.append(tasks.create_task(store.write_events([event])))
            await begun.get()
        assert await store.write_events([make_event(5)]) == [EventOutcome.WRITTEN]
        may_create.set()
    assert [each.result() for each in old] == [[EventOutcome.WRITTEN]] * 3


@pytest.mark.fresh_indices
async def test_a_month_that_takes_nothing_fails_its_own_calls_only(
    store: ElasticsearchStore,
) -> None:
    await store.ensure_repository(WIDGETS)
    blocked = make_event(1)
    open_ = make_event(2, after(days=-60))
    await store.write_events([blocked, open_])
    index = cluster_of(store).layout.events_of(f"{blocked.key.received_at:%Y-%m}")
    await ask(store, "PUT", f"/{index}/_settings", {"index.blocks.write": True})
    failed, written = await asyncio.gather(
        store.write_events([make_event(3)]),
        store.write_events([make_event(4, after(days=-60))]),
        return_exceptions=True,
    )
    assert isinstance(failed, StoreUnavailableError)
    assert written == [EventOutcome.WRITTEN]


_WRITER = """
import asyncio, os, sys
from indexing.names import RepositoryName
from tests.builders import WIDGETS, make_event
from tests.indexing.store.elasticsearch.inspection import open_at
from indexing.store import ElasticsearchPlace

async def main():
    store = await open_at(ElasticsearchPlace((sys.argv[1],), sys.argv[2]))
    await store.ensure_repository(WIDGETS)

    async def write(number):
        await store.write_events([make_event(number)])
        print(number, flush=True)

    await asyncio.gather(*(write(number) for number in range(300)))

asyncio.run(main())
"""


async def test_a_killed_process_has_lost_nothing_that_it_had_answered(
    store: ElasticsearchStore, elasticsearch_place: ElasticsearchPlace
) -> None:
    writer = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _WRITER,
        elasticsearch_place.urls[0],
        elasticsearch_place.prefix,
        stdout=asyncio.subprocess.PIPE,
    )
    assert writer.stdout is not None
    answered = {int(await writer.stdout.readline()) for _ in range(50)}
    writer.kill()
    answered |= {int(line) async for line in writer.stdout if line.endswith(b"\n")}
    await writer.wait()
    page = await cluster_of(store).connection.search(
        cluster_of(store).layout.events, {"size": 1_000, "_source": ["id"]}
    )
    assert answered <= {hit["_source"]["id"] for hit in page["hits"]["hits"]}


async def test_events_that_retention_dropped_are_written_again_together(
    store: ElasticsearchStore, requests: Counter[str]
) -> None:
    """Even if one is given twice: the second is compared with the first."""
    await store.ensure_repository(WIDGETS)
    dropped = [make_event(number) for number in range(100)]
    # A younger event keeps their slice.
    await store.write_events([*dropped, make_event(1_000, after(hours=2))])
    await store.prune(after(hours=1), NOON)
    assert await event_ids(store) == [1_000]
    requests.clear()
    given = [*dropped, dropped[7], make_event(8, base_ref="other")]
    written, unchanged, conflict = (
        EventOutcome.WRITTEN,
        EventOutcome.UNCHANGED,
        EventOutcome.CONFLICT,
    )
    assert await store.write_events(given) == [*[written] * 100, unchanged, conflict]
    assert requests["_bulk"] + requests["_refresh"] <= 10
    assert await event_ids(store) == [1_000, *range(99, 0, -1)]


async def test_calls_at_once_write_an_event_that_retention_dropped_once(
    store: ElasticsearchStore, other: ElasticsearchStore
) -> None:
    await store.ensure_repository(WIDGETS)
    await store.write_events([make_event(1), make_event(2, after(hours=2))])
    await store.prune(after(hours=1), NOON)
    outcomes = await asyncio.gather(
        *(each.write_events([make_event(1)]) for each in (store, other) for _ in range(4))
    )
    assert Counter(outcome for (outcome,) in outcomes) == {
        EventOutcome.WRITTEN: 1,
        EventOutcome.UNCHANGED: 7,
    }
    assert await event_ids(store) == [2, 1]
