"""Responses are always those of the store, whatever is cached, also right after a write."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import aiohttp
import pytest
from multidict import CIMultiDict

from indexing.errors import StoreUnavailableError
from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from indexing.models.keys import Scope
from indexing.models.quarantines import QuarantineRequest
from indexing.models.repositories import RepositoryChange
from indexing.models.selections import ExecutionSelection
from indexing.store.interface import Store
from tests.builders import GADGETS, NOON, WIDGETS, after, load_names, make_executions, make_run
from tests.service.cache.quarantining import add, listed
from tests.service.front_door import QUARANTINES, SEARCH, TESTS, FrontDoor

HINGE = f"{TESTS}/{derive_test_id(WIDGETS, 'hinge')}"
CLIENTS = 500


@pytest.fixture
async def reads(door: FrontDoor, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the names of the store's methods in the order of the calls."""
    calls: list[str] = []

    def counted(name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(door.reader, name)

        async def call(*arguments: Any) -> Any:
            calls.append(name)
            return await method(*arguments)

        return call

    for name in (
        "find_key",
        "find_repository",
        "get_test",
        "search_tests",
        "list_quarantines",
        "get_quarantine",
        "count_health",
    ):
        monkeypatch.setattr(door.reader, name, counted(name))
    return calls


async def test_a_value_that_was_read_once_is_cached(door: FrontDoor, reads: list[str]) -> None:
    await load_names(door.store, ["hinge"])
    quarantine = await add(door)
    other = await door.new_key()
    targets = (HINGE, QUARANTINES, f"{QUARANTINES}/{quarantine}", f"{SEARCH}?test_name=*")
    # Of these writes, which read the store too.
    reads.clear()
    first = [await door.get(target) for target in targets]
    assert sorted(reads) == [
        "find_key",
        "find_repository",
        "get_quarantine",
        "get_test",
        "list_quarantines",
        "search_tests",
    ]
    again = [await door.get(target) for target in targets]
    # Another credential misses the response cache; the bodies are the same.
    foreign = [await door.get(target, key=other) for target in targets]
    for one, two, three in zip(first, again, foreign, strict=True):
        assert one.status == 200
        assert one.body == two.body == three.body
        assert one.headers["ETag"] == two.headers["ETag"] == three.headers["ETag"]
        assert one.headers.get("Link") == two.headers.get("Link") == three.headers.get("Link")
    assert reads[6:] == ["find_key"]


async def test_series_of_tests_by_health_share_one_read(door: FrontDoor, reads: list[str]) -> None:
    stats = f"{TESTS}/stats"
    of_day = f"start={NOON:%Y-%m-%d}T00:00:00Z&end={after(hours=1):%Y-%m-%dT%H:%M:%SZ}"

    async def read_both() -> list[object]:
        names = ("healthy_tests", "total_tests")
        answers = [await door.get(f"{stats}/{name}?{of_day}") for name in names]
        return [answer.json["value"] for answer in answers]

    await load_names(door.store, ["hinge"])
    assert await read_both() == [1, 1]
    assert reads.count("count_health") == 1
    await load_names(door.store, ["latch"])
    assert await read_both() == [2, 2]
    assert reads.count("count_health") == 2


async def test_a_quarantine_shows_in_the_next_count_of_quarantined_tests(door: FrontDoor) -> None:
    of_day = f"start={NOON:%Y-%m-%d}T00:00:00Z&end={after(hours=1):%Y-%m-%dT%H:%M:%SZ}"
    target = f"{TESTS}/stats/quarantined_tests?{of_day}"
    await load_names(door.store, ["hinge"])
    for _ in range(3):
        assert (await door.get(target)).json["value"] == 0
    await add(door)
    assert (await door.get(target)).json["value"] == 1


async def test_an_absent_value_is_not_cached(door: FrontDoor, reads: list[str]) -> None:
    assert (await door.get(HINGE)).status == 404
    await load_names(door.store, ["hinge"])
    assert (await door.get(HINGE)).status == 200
    assert reads.count("get_test") == 2


async def test_every_write_shows_in_the_next_answer(door: FrontDoor) -> None:
    await load_names(door.store, ["hinge"])
    assert (await door.get(HINGE)).json["last_conclusion"] == "passed"
    assert await listed(door) == []
    for number in range(3):
        run = make_run(f"n{number}")
        executions = make_executions(run, [("hinge", Conclusion.FAILED)], after(hours=number + 1))
        await door.store.write_results(WIDGETS, {run: executions})
        await door.store.refresh_tests(NOON, repository=WIDGETS)
        assert (await door.get(HINGE)).json["failure_ratio"] == pytest.approx(
            (number + 1) / (number + 2)
        )
    await door.store.set_repository(WIDGETS, RepositoryChange(flaky_detection=False), NOON)
    assert (await door.get(HINGE)).json["flaky_detection_enabled"] is False
    await door.store.set_repository(WIDGETS, RepositoryChange(default_branch="next"), NOON)
    await door.store.refresh_tests(NOON)
    assert (await door.get(HINGE)).json["health_status"] == "unknown"
    quarantine = await add(door)
    assert await listed(door) == [quarantine]
    assert (await door.get(f"{QUARANTINES}/{quarantine}")).status == 200
    await door.store.remove_quarantine(WIDGETS, uuid.UUID(quarantine), NOON)
    assert await listed(door) == []
    assert (await door.get(f"{QUARANTINES}/{quarantine}")).status == 404


async def test_an_automatic_quarantine_shows_in_the_next_answer(door: FrontDoor) -> None:
    await door.store.set_repository(WIDGETS, RepositoryChange(auto_quarantine=True), NOON)
    for attempt, conclusion in enumerate([Conclusion.FAILED, Conclusion.PASSED], start=1):
        run = make_run(attempt=attempt)
        executions = make_executions(run, [("hinge", conclusion)], after(minutes=attempt - 5))
        await door.store.write_results(WIDGETS, {run: executions})
    assert await listed(door) == await listed(door) == []
    await door.store.refresh_tests(NOON, repository=WIDGETS)
    assert len(await listed(door)) == 1


Removal = Callable[[Store], Awaitable[object]]


@pytest.mark.parametrize(
    "remove",
    [
        lambda store: store.forget_test(WIDGETS, "hinge", NOON),
        lambda store: store.remove_executions(ExecutionSelection(WIDGETS, test_name="hinge"), NOON),
        lambda store: store.prune(after(days=1), NOON),
    ],
    ids=["forgotten", "removed", "pruned"],
)
async def test_a_removal_shows_in_the_next_answer(door: FrontDoor, remove: Removal) -> None:
    await load_names(door.store, ["hinge"])
    # The second and third come from the caches.
    bodies = {(await door.get(HINGE)).body for _ in range(3)}
    assert len(bodies) == 1
    await remove(door.store)
    # A test that was not forgotten stays known, without its executions.
    assert (await door.get(HINGE)).body not in bodies


async def test_a_key_stops_at_the_moment_that_it_expires(door: FrontDoor) -> None:
    key = await door.add_key(expires_at=after(minutes=1))
    for _ in range(2):
        assert (await door.get(QUARANTINES, key=key)).status == 200
    door.clock.now = after(minutes=1)
    assert (await door.get(QUARANTINES, key=key)).status == 403


async def test_a_quarantine_is_over_at_the_moment_that_it_expires(door: FrontDoor) -> None:
    first = await add(door, expires_at=after(minutes=1))
    second = await add(door, "latch")
    assert set(await listed(door)) == {first, second}
    assert (await door.get(f"{QUARANTINES}/{first}")).status == 200
    door.clock.now = after(minutes=1)
    assert await listed(door) == [second]
    assert (await door.get(f"{QUARANTINES}/{first}")).status == 404
    # When the clock goes back, the quarantine is in force again.
    door.clock.now = NOON
    assert set(await listed(door)) == {first, second}


@pytest.mark.parametrize("relation", ["next", "prev"])
async def test_a_link_to_a_page_goes_with_the_last_row_there(
    door: FrontDoor, relation: str
) -> None:
    names = ["a", "b", "c"]
    passing = names[2] if relation == "next" else names[0]
    for minute, name in enumerate(names):
        ends = after(hours=1) if name == passing else None
        request = QuarantineRequest(name, "flaps", expires_at=ends)
        await door.store.add_quarantine(WIDGETS, request, after(minutes=minute))
    target = f"{QUARANTINES}?per_page=2"
    if relation == "prev":
        target = (await door.get(target)).links["last"]
    for _ in range(2):
        assert relation in (await door.get(target)).links
    door.clock.now = after(hours=1)
    assert relation not in (await door.get(target)).links


async def test_a_cached_response_is_for_one_credential_and_host_alone(door: FrontDoor) -> None:
    await load_names(door.store, ["hinge"])
    for _ in range(2):
        assert (await door.get(HINGE)).status == 200
    assert (await door.get(HINGE, key=await door.new_key(owner="umbrella"))).status == 404
    assert (await door.get(HINGE, key=await door.new_key(Scope.INGEST))).status == 403
    assert (await door.get(HINGE, key=door.key[:-1] + "_")).status == 403
    assert (await door.ask(HINGE, {})).status == 403
    twice = CIMultiDict([("Authorization", f"Bearer {door.key}")] * 2)
    assert (await door.ask(HINGE, twice)).status == 403
    assert (await door.get(HINGE, Expect="coffee")).status == 417
    assert (await door.get(HINGE, method="DELETE")).status == 405
    search = f"{SEARCH}?test_name=*"
    assert "//a.example/" in (await door.get(search, Host="a.example")).links["first"]
    assert "//b.example/" in (await door.get(search, Host="b.example")).links["first"]


async def test_one_repository_never_answers_for_another(door: FrontDoor) -> None:
    for repository in (WIDGETS, GADGETS):
        await load_names(door.store, ["hinge"], repository=repository)
    gadgets = f"{TESTS.replace('widgets', 'gadgets')}/{derive_test_id(GADGETS, 'hinge')}"
    for _ in range(2):
        assert (await door.get(HINGE)).json["repository"] == "acme/widgets"
        assert (await door.get(gadgets)).json["repository"] == "acme/gadgets"


async def test_five_hundred_clients_cost_one_read_of_the_store(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    await load_names(door.store, ["hinge"])
    await door.get(QUARANTINES)
    server = door.runner.server
    assert server is not None
    get_test, handler = door.reader.get_test, server.request_handler
    all_have_asked, asked_so_far, calls = asyncio.Event(), 0, 0

    async def count(request: Any) -> Any:
        nonlocal asked_so_far
        asked_so_far += 1
        if asked_so_far == CLIENTS:
            all_have_asked.set()
        return await handler(request)

    async def read_when_all_have_asked(*asked: Any) -> Any:
        nonlocal calls
        calls += 1
        await all_have_asked.wait()
        return await get_test(*asked)

    # Only for new connections: those of `door` already hold the original handler.
    monkeypatch.setattr(server, "request_handler", count)

    monkeypatch.setattr(door.reader, "get_test", read_when_all_have_asked)
    headers = {"Authorization": f"Bearer {door.key}"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as crowd:

        async def ask() -> bytes:
            async with crowd.get(door.base + HINGE, headers=headers) as response:
                assert response.status == 200
                return await response.read()

        bodies = await asyncio.gather(*(ask() for _ in range(CLIENTS)))
    assert len(set(bodies)) == 1
    assert calls == 1


async def load(door: FrontDoor, run_id: str, name: str, hours: int) -> None:
    run = make_run(run_id)
    made = make_executions(run, [(name, Conclusion.PASSED)], after(hours=hours))
    await door.store.write_results(WIDGETS, {run: made})
    await door.store.refresh_tests(NOON, repository=WIDGETS)


async def test_a_load_leaves_what_it_does_not_change(door: FrontDoor, reads: list[str]) -> None:
    await load_names(door.store, ["hinge", "latch"])
    quarantine = await add(door)
    targets = (HINGE, QUARANTINES, f"{QUARANTINES}/{quarantine}")
    for target in targets:
        await door.get(target)
    search = f"{SEARCH}?test_name=*"
    await door.get(search)
    reads.clear()
    await load(door, "n1", "latch", 1)
    for target in targets:
        assert (await door.get(target)).status == 200
    assert reads == []
    # The test that has run most often is first.
    assert (await door.get(search)).json["tests"][0]["test_name"] == "latch"
    # Its own detail has changed.
    await load(door, "n2", "hinge", 2)
    assert (await door.get(HINGE)).json["last_success_at"] == "2026-09-01T14:00:00Z"


async def test_what_a_refresh_wrote_before_it_failed_shows_in_the_next_answer(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    await load_names(door.store, ["hinge"])
    for _ in range(3):
        assert (await door.get(HINGE)).json["last_success_at"] == "2026-09-01T12:00:00Z"
    store: Any = door.reader
    refresh = store.refresh_tests

    async def fail(now: datetime, progress: Any, repository: Any, changed: Any) -> int:
        # It has not reported what it changed.
        del changed
        await refresh(now, progress, repository)
        raise StoreUnavailableError("gone")

    monkeypatch.setattr(store, "refresh_tests", fail)
    with pytest.raises(StoreUnavailableError):
        await load(door, "n1", "hinge", 1)
    assert (await door.get(HINGE)).json["last_success_at"] == "2026-09-01T13:00:00Z"


async def test_results_that_are_loaded_again_invalidate_nothing(
    door: FrontDoor, reads: list[str]
) -> None:
    await load(door, "n1", "hinge", 1)
    search = f"{SEARCH}?test_name=*"
    before = [(await door.get(target)).body for target in (HINGE, search)]
    reads.clear()
    await load(door, "n1", "hinge", 1)
    assert [(await door.get(target)).body for target in (HINGE, search)] == before
    assert reads == []


async def test_a_quarantine_leaves_the_answers_about_tests(
    door: FrontDoor, reads: list[str]
) -> None:
    await load_names(door.store, ["hinge"])
    search = f"{SEARCH}?test_name=*"
    for target in (HINGE, search):
        await door.get(target)
    reads.clear()
    made = await add(door)
    for target in (HINGE, search):
        await door.get(target)
    assert reads == []
    assert await listed(door) == [made]
