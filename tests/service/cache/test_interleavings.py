"""Reads and writes that cross: an answer lacks nothing that was acknowledged before its request.

Reads are held before and after they ask the store, and writes between commit and invalidation,
while others go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from service.cache.invalidation import InvalidatingStore, Invalidator
from tests.builders import NOON, WIDGETS, after, load_names, make_event, make_executions, make_run
from tests.service.cache.quarantining import add
from tests.service.conftest import open_door
from tests.service.front_door import LOGS, QUARANTINES, SEARCH, TESTS, FrontDoor

LATCHES = tuple(f"latch {number}" for number in range(50))


async def add_event(door: FrontDoor, number: int) -> str:
    await door.store.write_events([make_event(1_000 + number, after(minutes=number - 60))])
    return f'"id":{1_000 + number},'


async def fail_hinge(door: FrontDoor, number: int) -> str:
    run = make_run(f"run {number}")
    made = make_executions(run, [("hinge", Conclusion.FAILED)], after(seconds=number))
    await door.store.write_results(WIDGETS, {run: made})
    await door.store.refresh_tests(NOON, repository=WIDGETS)
    return f'"last_failure_at":"2026-09-01T12:00:{number:02}Z"'


async def pass_pin(door: FrontDoor, number: int) -> str:
    """So many verdicts on the day after the quarantine began."""
    written = {}
    for each in range(number):
        run = make_run(f"pin {each}", commit=f"c{each}")
        written[run] = make_executions(run, [("pin", Conclusion.PASSED)], after(days=1))
    await door.store.write_results(WIDGETS, written)
    await door.store.refresh_tests(NOON, repository=WIDGETS)
    return f'"verdicts_since":{{"passed":{number},'


async def add_test(door: FrontDoor, number: int) -> str:
    await load_names(door.store, [f"bolt {number}"], make_run(f"bolt {number}"))
    return f'"bolt {number}"'


async def quarantine_latch(door: FrontDoor, number: int) -> str:
    await add(door, LATCHES[number])
    return f'"{LATCHES[number]}"'


@dataclass(frozen=True)
class Case:
    """An answer that is cached: its target, the read of the store that it takes, and a write.

    The write gives a text that the answer contains from then on.
    """

    target: str
    method: str
    write: Callable[[FrontDoor, int], Coroutine[Any, Any, str]]


CASES = (
    Case(f"{LOGS}?received_from=2026-08-31T00:00:00Z&per_page=1", "list_events", add_event),
    Case(f"{TESTS}/{derive_test_id(WIDGETS, 'hinge')}", "get_test", fail_hinge),
    Case(f"{SEARCH}?test_name=hinge&include=metrics", "search_tests", fail_hinge),
    Case(f"{SEARCH}?test_name=bolt*&per_page=100", "search_tests", add_test),
    Case(
        f"{SEARCH}?test_name=latch*&quarantined=true&per_page=100", "search_tests", quarantine_latch
    ),
    Case(QUARANTINES, "list_quarantines", quarantine_latch),
    Case(f"{QUARANTINES}?include=details&per_page=100", "list_quarantines", quarantine_latch),
    Case(f"{QUARANTINES}?include=details&per_page=100", "count_verdicts", pass_pin),
)


@dataclass
class Breakpoint:
    """Holds its first call until it is resumed."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    resumed: asyncio.Event = field(default_factory=asyncio.Event)

    async def pass_through(self) -> None:
        if not self.reached.is_set():
            self.reached.set()
            await self.resumed.wait()


class HeldInvalidator(Invalidator):
    def __init__(self, invalidator: Invalidator, stop: Breakpoint) -> None:
        self._invalidator = invalidator
        self._stop = stop

    async def invalidate(self, namespaces: Iterable[str]) -> None:
        names = tuple(namespaces)
        await self._stop.pass_through()
        await self._invalidator.invalidate(names)


@pytest.fixture
async def doors(door: FrontDoor) -> AsyncIterator[list[FrontDoor]]:
    """Yield two services over one store; each sees the writes of the other."""
    await load_names(door.store, ["hinge", *LATCHES])
    await add(door, "pin")
    if door.settings.elasticsearch_url and not door.settings.redis_url:
        yield [door]
        return
    async for replica in open_door(door.settings):
        replica.key = door.key
        yield [door, replica]


async def ask(doors: Iterable[FrontDoor], case: Case) -> list[str]:
    """Return the body from each service, read or cached, and then from its response cache."""
    told = [await door.get(case.target) for door in doors for _ in range(2)]
    assert {answer.status for answer in told} == {200}
    return [answer.body.decode() for answer in told]


@pytest.mark.parametrize("has_read", [False, True])
async def test_a_slow_read_hides_no_write_from_later_requests(
    doors: list[FrontDoor], monkeypatch: pytest.MonkeyPatch, *, has_read: bool
) -> None:
    number = 0
    reader = doors[0]
    for case in CASES:
        for writer in doors:
            number += 2
            earlier = await case.write(writer, number)
            stop, read = Breakpoint(), getattr(reader.reader, case.method)

            async def held(*asked: Any, stop: Breakpoint = stop, read: Any = read) -> Any:
                if not has_read:
                    await stop.pass_through()
                found = await read(*asked)
                if has_read:
                    await stop.pass_through()
                return found

            with monkeypatch.context() as patched:
                patched.setattr(reader.reader, case.method, held)
                slow = asyncio.create_task(reader.get(case.target))
                await stop.reached.wait()
                later = await case.write(writer, number + 1)
                # While that read is in progress, and after it has cached what it found.
                assert all(later in body for body in await ask(doors, case))
                stop.resumed.set()
                body = (await slow).body.decode()
                assert (earlier if has_read else later) in body
                assert all(later in body for body in await ask(doors, case))


async def test_a_read_before_the_invalidation_hides_no_write(
    doors: list[FrontDoor], monkeypatch: pytest.MonkeyPatch
) -> None:
    number = 0
    for case in CASES:
        for writer in doors:
            number += 1
            assert isinstance(writer.store, InvalidatingStore)
            stop = Breakpoint()
            await ask(doors, case)
            with monkeypatch.context() as patched:
                invalidator = HeldInvalidator(writer.store._invalidator, stop)
                patched.setattr(writer.store, "_invalidator", invalidator)
                write = asyncio.create_task(case.write(writer, number))
                await stop.reached.wait()
                # Not acknowledged yet: with it or without it, each answer is right, and is cached.
                await ask(doors, case)
                stop.resumed.set()
                written = await write
            assert all(written in body for body in await ask(doors, case))
