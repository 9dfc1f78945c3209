"""Requests that arrive during a direct read wait for its end, and what ends such a read."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from indexing.models.tests import TestDetail
from indexing.names import RepositoryName
from indexing.store.interface import Reader
from service.cache.backend import Versions
from service.cache.memory import MemoryBackend
from service.context import LIFECYCLE
from service.server.protocol import MAX_WAITING_BYTES, Connection
from tests.service.front_door import (
    SEARCH,
)
from tests.service.processes import TIMEOUT
from tests.service.server.direct_reads import IN_MEMORY, LATCH, UNKNOWN, learn
from tests.service.wire import HINGE, Wire


class HeldReads:
    """Holds the reads of a test back until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, store: type[Reader]) -> None:
        self.entered, self.opened, self.cancelled = (asyncio.Event() for _ in range(3))
        read = store.get_test

        async def wait(
            reader: Reader, repository: RepositoryName, test_id: uuid.UUID
        ) -> TestDetail | None:
            self.entered.set()
            try:
                await self.opened.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            return await read(reader, repository, test_id)

        monkeypatch.setattr(store, "get_test", wait)


@pytest.fixture
def held_reads(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> HeldReads:
    return HeldReads(monkeypatch, type(wire.door.reader))


async def begin(wire: Wire, held_reads: HeldReads) -> None:
    """Begin a direct read that is held back."""
    held_reads.opened.set()
    await learn(wire, HINGE)
    held_reads.opened.clear()
    held_reads.entered.clear()
    wire.writer.write(wire.head(LATCH))
    await asyncio.wait_for(held_reads.entered.wait(), TIMEOUT)
    assert wire.unparsed == 1


@IN_MEMORY
async def test_requests_that_arrive_meanwhile_are_answered_in_order(
    wire: Wire, held_reads: HeldReads, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived = asyncio.Event()
    hold_back = Connection._hold_back

    def notice(connection: Connection, data: bytes) -> None:
        hold_back(connection, data)
        if len(connection._waiting) == expected:
            arrived.set()

    monkeypatch.setattr(Connection, "_hold_back", notice)
    await begin(wire, held_reads)
    # More than is kept, and the beginning of another request.
    targets = [SEARCH, UNKNOWN, "/health/live", HINGE] * 20
    heads = b"".join(wire.head(target) for target in targets) + wire.head(HINGE)[:30]
    expected = len(heads)
    assert expected < MAX_WAITING_BYTES
    wire.writer.write(heads)
    await asyncio.wait_for(arrived.wait(), TIMEOUT)
    held_reads.opened.set()
    assert (await wire.read())[0] == 200
    assert [(await wire.read())[0] for _ in targets] == [422, 404, 200, 200] * 20
    wire.writer.write(wire.head(HINGE)[30:])
    assert (await wire.read())[0] == 200


@IN_MEMORY
async def test_versions_are_checked_as_on_arrival_only_for_what_arrives_now(
    wire: Wire, held_reads: HeldReads, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_tasks: list[bool] = []
    find = MemoryBackend.find_versions

    def find_versions(backend: MemoryBackend, namespaces: tuple[str, ...]) -> Versions:
        # Data arrives outside of any task.
        in_tasks.append(asyncio.current_task() is not None)
        return find(backend, namespaces)

    monkeypatch.setattr(MemoryBackend, "find_versions", find_versions)
    held_reads.opened.set()
    await wire.repeat(wire.head(HINGE))
    held_back = asyncio.Event()
    hold_back = Connection._hold_back

    def notice(connection: Connection, data: bytes) -> None:
        hold_back(connection, data)
        held_back.set()

    monkeypatch.setattr(Connection, "_hold_back", notice)
    for later in (wire.head(HINGE), wire.head(f"{HINGE}?n=1")):
        for event in (held_reads.opened, held_reads.entered, held_back):
            event.clear()
        wire.writer.write(wire.head(f"{UNKNOWN}?n={len(later)}"))
        await asyncio.wait_for(held_reads.entered.wait(), TIMEOUT)
        wire.writer.write(later)
        await asyncio.wait_for(held_back.wait(), TIMEOUT)
        held_reads.opened.set()
        assert [(await wire.read())[0] for _ in range(2)] == [404, 200]
    assert in_tasks
    assert not any(in_tasks)


@IN_MEMORY
async def test_no_byte_is_lost_of_more_than_is_kept(wire: Wire, held_reads: HeldReads) -> None:
    await begin(wire, held_reads)
    count = 4 * MAX_WAITING_BYTES // len(wire.head(UNKNOWN))
    wire.writer.write(wire.head(UNKNOWN) * count)
    reading = asyncio.create_task(wire.read())
    held_reads.opened.set()
    assert (await reading)[0] == 200
    for _ in range(count):
        assert (await wire.read())[0] == 404


@IN_MEMORY
async def test_a_read_ends_with_its_client(wire: Wire, held_reads: HeldReads) -> None:
    await begin(wire, held_reads)
    wire.writer.transport.abort()
    await asyncio.wait_for(held_reads.cancelled.wait(), TIMEOUT)
    held_reads.opened.set()
    other = await Wire.open(wire.door)
    assert (await other.ask(other.head(LATCH)))[0] == 200
    await other.close()


@IN_MEMORY
async def test_a_read_in_progress_is_finished_before_the_process_stops(
    wire: Wire, held_reads: HeldReads
) -> None:
    await begin(wire, held_reads)
    wire.door.app[LIFECYCLE].stopping = True
    stopping = asyncio.create_task(wire.door.runner.server.shutdown(TIMEOUT))  # type: ignore[union-attr]
    await asyncio.sleep(0)
    held_reads.opened.set()
    status, fields, _ = await wire.read()
    assert (status, fields["connection"]) == (200, "close")
    assert await wire.reader.read() == b""
    await stopping


@IN_MEMORY
async def test_a_read_in_progress_is_not_idle(wire: Wire, held_reads: HeldReads) -> None:
    await begin(wire, held_reads)
    connection = wire.connection
    # The keep-alive timeout is over.
    connection._next_keepalive_close_time = 0.0
    connection._process_keepalive()
    held_reads.opened.set()
    assert (await wire.read())[0] == 200


@IN_MEMORY
async def test_a_failed_read_is_a_problem_and_the_connection_stays(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    await learn(wire, HINGE)

    async def fail(*_: object) -> TestDetail | None:
        raise LookupError("a bug")

    with monkeypatch.context() as patched:
        patched.setattr(type(wire.door.reader), "get_test", fail)
        status, fields, body = await wire.ask(wire.head(LATCH))
    assert (status, fields["content-type"]) == (500, "application/problem+json")
    assert b"a bug" not in body
    assert (await wire.ask(wire.head(LATCH)))[0] == 200
    assert wire.unparsed == 2
