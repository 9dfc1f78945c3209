"""Namespace versions: what changes them, and how a process notices the writes of others."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Hashable
from pathlib import Path

import uvloop

from indexing.errors import StoreUnavailableError
from indexing.models.quarantines import QuarantineRequest
from indexing.store import open_store
from service.cache.backend import Versions
from service.cache.memory import MemoryBackend
from tests.builders import NOON, WIDGETS


async def wait_one_iteration() -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_invalidating_one_namespace_leaves_the_others() -> None:
    backend = MemoryBackend(lambda: None)
    before = await backend.read_versions(("a", "b"))
    await backend.invalidate(["a"])
    await wait_one_iteration()
    after = await backend.read_versions(("a", "b"))
    assert before is not None
    assert after is not None
    assert before[0] != after[0]
    assert before[1] == after[1]


async def test_a_commit_of_any_process_invalidates_everything() -> None:
    told: list[Hashable] = [1, 1, 2]

    def tell() -> Hashable:
        if not told:
            raise StoreUnavailableError("locked")
        return told.pop(0)

    backend = MemoryBackend(tell)
    seen = []
    for _ in range(5):
        seen.append(await backend.read_versions(("a",)))
        await wait_one_iteration()
    assert seen[0] == seen[1]
    assert len(set(seen)) == 4


def test_a_request_sees_what_was_committed_before_it_arrived() -> None:
    """Requests that are answered as they arrive do so between two rounds of callbacks."""

    class Receiver(asyncio.Protocol):
        def __init__(self) -> None:
            self.seen: asyncio.Future[Versions] = asyncio.get_running_loop().create_future()

        def data_received(self, data: bytes) -> None:  # noqa: ARG002 - that it arrives is enough
            self.seen.set_result(backend.find_versions(("a",)))

    commits = 0
    backend = MemoryBackend(lambda: commits)

    async def run() -> None:
        nonlocal commits
        client, server = socket.socketpair()
        with client:
            loop = asyncio.get_running_loop()
            transport, receiver = await loop.create_connection(Receiver, sock=server)
            before = await backend.read_versions(("a",))
            # Another process commits, and then a client sends a request.
            commits = 1
            client.send(b"request")
            assert await receiver.seen != before
            transport.close()

    uvloop.run(run())


async def test_the_revision_changes_with_writes_of_others_only(tmp_path: Path) -> None:
    one, other = [await open_store(tmp_path) for _ in range(2)]
    await one.add_quarantine(WIDGETS, QuarantineRequest("first", "flaps"), NOON)
    before = one.revision()
    assert one.revision() == before
    await one.add_quarantine(WIDGETS, QuarantineRequest("latch", "flaps"), NOON)
    assert one.revision() == before
    await other.add_quarantine(WIDGETS, QuarantineRequest("hinge", "flaps"), NOON)
    # A write of its own between the other one and the question hides nothing.
    await one.add_quarantine(WIDGETS, QuarantineRequest("bolt", "flaps"), NOON)
    assert one.revision() != before
    before = one.revision()
    assert one.revision() == before
    for store in (one, other):
        await store.close()
