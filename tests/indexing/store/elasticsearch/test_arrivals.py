"""The stamps of events, when the cluster takes long to make them visible."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from indexing.models.arrivals import MOST_BYTES, ArrivalKey
from indexing.store.elasticsearch import arrivals
from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.bulk import Operation, Outcome
from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.client.documents import Document, Version
from indexing.store.elasticsearch.client.places import Place
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.store import ElasticsearchStore
from indexing.yielding import WORK_SECONDS
from tests.builders import WIDGETS, make_event

EVENTS = range(3)
VERSION = Version(0, 1)


def operation_of(event: int, stamp: int) -> Operation:
    return Operation("create", "events", str(event), "here", {arrivals.STAMP: stamp})


@dataclass
class SlowCluster:
    """Stands for a cluster and for the clock: each write takes the next of these seconds."""

    seconds: list[float]
    now: float = 1_000.0
    # The first response is lost, so its request is sent again, and conflicts with itself.
    loses_a_response: bool = False
    # The stamps of each write, and when it was visible.
    writes: list[tuple[list[float], float]] = field(default_factory=list)

    @property
    def slices(self) -> SlowCluster:
        return self

    @property
    def connection(self) -> SlowCluster:
        return self

    async def send_each(self, operations: Sequence[Operation]) -> list[Outcome]:
        self.now += self.seconds.pop(0)
        stamps = [cast("dict[str, Any]", each.source)[arrivals.STAMP] for each in operations]
        self.writes.append(([stamp / 1_000_000 for stamp in stamps], self.now))
        if self.loses_a_response and len(self.writes) == 1:
            return [Outcome(409, {"type": "version_conflict_engine_exception"}) for _ in operations]
        return [Outcome(201) for _ in operations]

    async def get_many(self, places: Sequence[Place], **_options: Any) -> list[Document]:
        stamps, _ = self.writes[0]
        return [
            Document(each.id, {arrivals.STAMP: round(stamps[int(each.id)] * 1_000_000)}, VERSION)
            for each in places
        ]

    async def send(self, _: SlowCluster, operations: Sequence[Operation], **_options: bool) -> None:
        assert {each.action for each in operations} == {"index"}
        await self.send_each(operations)

    async def make_visible(self, _: SlowCluster, operations: Sequence[Operation]) -> None: ...


def stand_in(cluster: SlowCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `arrivals` write to this cluster, by its clock."""
    monkeypatch.setattr(arrivals, "_now", lambda: int(cluster.now * 1_000_000))
    # Not the clock of the event loop.
    monkeypatch.setattr(arrivals, "time", SimpleNamespace(monotonic=lambda: cluster.now))
    monkeypatch.setattr(bulk, "send", cluster.send)
    monkeypatch.setattr(bulk, "make_visible", cluster.make_visible)


async def send_over(cluster: SlowCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(cluster, monkeypatch)
    sent = await arrivals.send_stamped(cast("Cluster", cluster), EVENTS, operation_of)
    assert [cast("Outcome", outcome).done for _, outcome in sent] == [True] * len(EVENTS)


@pytest.mark.parametrize(
    ("seconds", "writes"), [([1.4], 1), ([2, 2], 2), ([20, 30], 2), ([2, 6, 12, 5], 3)]
)
async def test_events_are_visible_before_readers_pass_their_stamps(
    seconds: list[float],
    writes: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = SlowCluster(seconds)
    await send_over(cluster, monkeypatch)
    assert len(cluster.writes) == writes
    stamps, visible_at = cluster.writes[-1]
    assert visible_at < min(stamps) + arrivals.SETTLING_SECONDS / 2
    assert stamps == sorted(set(stamps))
    assert not caplog.records


async def test_a_reader_that_begins_during_a_write_sees_its_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = SlowCluster([1.4])
    stand_in(cluster, monkeypatch)
    begun = []

    async def begin(_: SlowCluster, __: Sequence[Operation]) -> None:
        begun.append(arrivals.find_newest())

    monkeypatch.setattr(bulk, "make_visible", begin)
    await arrivals.send_stamped(cast("Cluster", cluster), EVENTS, operation_of)
    stamps, _ = cluster.writes[0]
    assert begun[0].sequence < min(stamps) * 1_000_000


async def test_a_slow_write_whose_response_was_lost_is_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = SlowCluster([20, 2], loses_a_response=True)
    stand_in(cluster, monkeypatch)
    sent = await arrivals.send_stamped(cast("Cluster", cluster), EVENTS, operation_of)
    assert all(cast("Outcome", outcome).conflicts for _, outcome in sent)
    stamps, visible_at = cluster.writes[-1]
    assert len(cluster.writes) == 2
    assert visible_at < min(stamps) + arrivals.SETTLING_SECONDS / 2


async def test_events_that_streams_may_miss_are_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        await send_over(SlowCluster([2.0 * 4**n for n in range(5)]), monkeypatch)
    assert "streams may miss 3 events" in caplog.text


async def test_other_tasks_run_while_many_writes_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Making the writes of a batch must not block the event loop of other tenants."""
    cluster = SlowCluster([1.0])
    turns = []

    def make_slowly(event: int, stamp: int) -> Operation:
        time.sleep(WORK_SECONDS / 2)
        return operation_of(event, stamp)

    async def take_turns() -> None:
        while not cluster.writes:
            turns.append(len(cluster.writes))
            await asyncio.sleep(0)

    stand_in(cluster, monkeypatch)
    other = asyncio.create_task(take_turns())
    await arrivals.send_stamped(cast("Cluster", cluster), range(12), make_slowly)
    await other
    assert len(turns) >= 4


@pytest.mark.parametrize(
    ("characters", "events", "searches"), [(10, 120, 4), (3_000, 120, 3), (300_000, 9, 1)]
)
async def test_a_read_finds_as_many_events_as_fit_in_few_searches(
    store: ElasticsearchStore,
    monkeypatch: pytest.MonkeyPatch,
    characters: int,
    events: int,
    searches: int,
) -> None:
    await store.ensure_repository(WIDGETS)
    # However slow the write is, its stamps stay.
    monkeypatch.setattr(arrivals, "SETTLING_SECONDS", 600.0)
    position = await store.find_newest_arrival()
    await store.write_events(
        [make_event(n, metadata={"message": "x" * characters}) for n in range(events)]
    )
    monkeypatch.setattr(arrivals, "SETTLING_SECONDS", 0.0)
    sent: list[Any] = []
    search = Connection.search

    async def count(connection: Connection, *about: Any, **options: Any) -> Any:
        sent.append(about)
        return await search(connection, *about, **options)

    monkeypatch.setattr(Connection, "search", count)
    found = await store.list_arrivals(position, 500)
    assert len(sent) == searches
    size = sum(len(row.body) for row in found.rows)
    one_more = size + len(found.rows[-1].body)
    assert found.is_all == (len(found.rows) == events)
    assert found.is_all or one_more > MOST_BYTES


async def test_a_position_that_is_not_settled_any_more_is_set_back(
    store: ElasticsearchStore,
) -> None:
    position = ArrivalKey(time.time_ns() // 1_000)
    found = await store.list_arrivals(position, 10)
    assert (found.rows, found.is_all) == ((), False)
    assert found.until < position
    following = await store.list_arrivals(found.until, 10)
    assert following.is_all
    assert following.until >= found.until
