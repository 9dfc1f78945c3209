"""Two rebuilds of which one is held at a request while the other goes on.

The rebuild that is held first is killed, and the cluster receives its request late; or it goes on.
Whatever the order, readers see what is loaded, and the store ends like one that was never rebuilt.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from indexing.errors import StoreError
from indexing.store import ElasticsearchPlace, open_store
from indexing.store.elasticsearch.client.connection import WRITING
from indexing.store.elasticsearch.store import ElasticsearchStore
from indexing.store.interface import Store
from tests.builders import NOON, WIDGETS, load_names, make_run
from tests.indexing.store.elasticsearch.inspection import (
    KilledError,
    cluster_of,
    indices_of,
    names,
    open_at,
)
from tests.waiting import until
from tests.whole_state import read_all

pytestmark = [pytest.mark.fresh_indices, pytest.mark.slow]

STORED = ["t0", "t1", "t2"]

Matches = Callable[[str, str, Any], bool]


def registers(method: str, target: str, body: Any) -> bool:
    return "control/_doc/store" in target and method == "PUT" and body["building"] is not None


def creates(method: str, target: str, _: Any) -> bool:
    return method == "PUT" and "-identities-" in target and not target.endswith("/_settings")


def marks(_: str, target: str, body: Any) -> bool:
    return target.startswith("/_bulk") and b"-stale" in body


def replaces(_: str, target: str, body: Any) -> bool:
    return target.startswith("/_bulk") and b'{"delete":' in body and b"-stale" in body


def fills(_: str, target: str, body: Any) -> bool:
    return target.startswith("/_bulk") and b"-identities-" in body


def retires(_: str, target: str, body: Any) -> bool:
    return target == "/_aliases" and "remove_index" in body["actions"][-1]


def swaps(_: str, target: str, body: Any) -> bool:
    return target == "/_aliases" and "add" in body["actions"][-1]


def takes_over(method: str, target: str, body: Any) -> bool:
    return "control/_doc/store" in target and method == "PUT" and body["building"] is None


def deletes(method: str, target: str, _: Any) -> bool:
    return method == "DELETE" and "-identities-" in target


@dataclass
class Hold:
    """A store whose first request of a kind is held until it may go or the store is killed."""

    store: ElasticsearchStore
    kind: Matches
    held: tuple[str, str, Any] | None = None
    killed: bool = False
    may_go: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._connection = cluster_of(self.store).connection
        self._request = self._connection.request

    def apply(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(self._connection, "request", self._send)

    async def _send(self, method: str, target: str, body: Any = None, **options: Any) -> Any:
        if self.killed:
            raise KilledError
        if self.held is None and self.kind(method, target, body):
            self.held = method, target, body
            await self.may_go.wait()
        return await self._request(method, target, body, **options)

    async def rebuild(self) -> asyncio.Task[int]:
        """Begin a rebuild; return once its request is held."""
        task = asyncio.create_task(self.store.rebuild(NOON))
        await until(lambda: self.held is not None or task.done())
        assert self.held is not None, task
        return task

    async def kill(self, task: asyncio.Task[int]) -> None:
        self.killed = True
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def let_it_arrive(self) -> None:
        """Let the cluster execute the request of the killed store."""
        assert self.held is not None
        await self._request(*self.held, timeouts=WRITING, allow=range(400, 500))


HoldFirst = Callable[[ElasticsearchStore, Matches], Hold]


@pytest.fixture
def hold(leases_expire_soon: None, monkeypatch: pytest.MonkeyPatch) -> HoldFirst:

    def hold(store: ElasticsearchStore, kind: Matches) -> Hold:
        held = Hold(store, kind)
        held.apply(monkeypatch)
        return held

    return hold


@dataclass
class Loads:
    """Loads through a store that is never held; each one must be visible at once."""

    store: ElasticsearchStore
    place: ElasticsearchPlace
    clean: Path
    names: list[str] = field(default_factory=list)
    prune_before: datetime | None = None

    async def add(self) -> None:
        self.names.append(f"new{len(self.names)}")
        await load_new(self.store, self.names[-1])
        await self.check()

    async def check(self) -> None:
        assert await names(self.store) == sorted([*STORED, *self.names])

    async def check_the_end(self) -> None:
        """Compare everything with a store that had the same loads and no rebuild."""
        await self.add()
        assert len(await indices_of(self.store, "identities")) == 1
        clean = await open_store(self.clean)
        await load_names(clean, STORED)
        if self.prune_before is not None:
            await load_old(clean)
            await clean.prune(self.prune_before, NOON)
        for name in self.names:
            await load_new(clean, name)
        await clean.close()
        assert await read_all(self.place, [WIDGETS]) == await read_all(self.clean, [WIDGETS])


async def load_new(store: Store, name: str) -> None:
    await load_names(store, [name, STORED[0]], make_run(name))


async def prune_during(rebuilding: Hold, loads: Loads) -> None:
    """Prune while a rebuild is held, and check that it ends like pruning without one."""
    loads.prune_before = NOON - timedelta(days=30)
    await load_old(loads.store)
    task = await rebuilding.rebuild()
    await loads.store.prune(loads.prune_before, NOON)
    await loads.add()
    rebuilding.may_go.set()
    await task
    await loads.check_the_end()


async def load_old(store: Store) -> None:
    await load_names(store, ["old", STORED[1]], make_run("old"), at=NOON - timedelta(days=60))


@pytest.fixture
async def loads(
    store: ElasticsearchStore, elasticsearch_place: ElasticsearchPlace, tmp_path: Path
) -> AsyncIterator[Loads]:
    await load_names(store, STORED)
    writer = await open_at(elasticsearch_place)
    yield Loads(writer, elasticsearch_place, tmp_path)
    await writer.close()


@pytest.mark.parametrize(
    ("first_kind", "second_kind"),
    [
        (swaps, retires),
        (swaps, registers),
        (swaps, creates),
        (swaps, swaps),
        (swaps, takes_over),
        (registers, swaps),
        (creates, swaps),
        (fills, swaps),
        (takes_over, swaps),
        (deletes, swaps),
    ],
)
async def test_a_late_request_of_a_killed_rebuild_changes_no_answer(
    store: ElasticsearchStore,
    other: ElasticsearchStore,
    hold: HoldFirst,
    loads: Loads,
    first_kind: Matches,
    second_kind: Matches,
) -> None:
    first, second = hold(store, first_kind), hold(other, second_kind)
    await first.kill(await first.rebuild())
    await loads.add()
    rebuilding = await second.rebuild()
    await loads.add()
    await first.let_it_arrive()
    await loads.check()
    await loads.add()
    second.may_go.set()
    await rebuilding
    await loads.check_the_end()


# Where the earlier and the later rebuild are held, and whether the earlier one ends.
@pytest.mark.parametrize(
    ("first_kind", "second_kind", "ends"),
    [
        (swaps, retires, True),
        (swaps, registers, False),
        (swaps, creates, False),
        (swaps, takes_over, False),
        (creates, swaps, False),
        (marks, swaps, False),
        (takes_over, swaps, True),
        (deletes, swaps, True),
    ],
)
async def test_of_two_rebuilds_the_one_that_began_later_ends(
    store: ElasticsearchStore,
    other: ElasticsearchStore,
    hold: HoldFirst,
    loads: Loads,
    first_kind: Matches,
    second_kind: Matches,
    ends: bool,
) -> None:
    first, second = hold(store, first_kind), hold(other, second_kind)
    earlier = await first.rebuild()
    later = await second.rebuild()
    await loads.add()
    first.may_go.set()
    await asyncio.wait([earlier])
    await loads.add()
    second.may_go.set()
    await later
    if ends:
        await earlier
    else:
        with pytest.raises(StoreError, match="another rebuild has begun"):
            await earlier
    await loads.check_the_end()


async def test_a_rebuild_that_is_registered_last_ends_after_one_that_began_later(
    store: ElasticsearchStore, other: ElasticsearchStore, hold: HoldFirst, loads: Loads
) -> None:
    first, second = hold(store, registers), hold(other, swaps)
    earlier = await first.rebuild()
    later = await second.rebuild()
    first.may_go.set()
    await earlier
    await loads.add()
    second.may_go.set()
    with pytest.raises(StoreError, match="another rebuild has begun"):
        await later
    await loads.check_the_end()


@pytest.mark.parametrize("kind", [registers, marks, swaps, takes_over])
async def test_pruning_during_a_rebuild_ends_like_pruning_without_one(
    store: ElasticsearchStore, hold: HoldFirst, loads: Loads, kind: Matches
) -> None:
    await prune_during(hold(store, kind), loads)


@pytest.mark.parametrize("kind", [marks, replaces, fills])
async def test_pruning_while_a_killed_rebuild_is_repeated_ends_like_pruning_without_one(
    store: ElasticsearchStore,
    other: ElasticsearchStore,
    hold: HoldFirst,
    loads: Loads,
    kind: Matches,
) -> None:
    first, second = hold(store, fills), hold(other, kind)
    await first.kill(await first.rebuild())
    await prune_during(second, loads)
