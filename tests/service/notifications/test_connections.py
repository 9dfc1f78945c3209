"""How the names of receivers are resolved: without holding up each other, or the process."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from service.notifications.connections import MAX_LOOKUPS, ThreadResolver, TooManyLookupsError
from tests.waiting import until

FOUND = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 443))]


class Names:
    """A name server: names that begin with `slow` are answered once `released` is set."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.released = threading.Event()

    def getaddrinfo(self, host: str, *_: Any, **__: Any) -> list[Any]:
        self.asked.append(host)
        if host.startswith("slow"):
            self.released.wait()
        if host.endswith("nowhere"):
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return FOUND


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Names]:
    served = Names()
    monkeypatch.setattr(socket, "getaddrinfo", served.getaddrinfo)
    yield served
    served.released.set()


@pytest.fixture
async def resolver() -> AsyncIterator[ThreadResolver]:
    opened = ThreadResolver()
    yield opened
    await opened.close()


async def test_a_name_that_is_slow_delays_no_other(names: Names, resolver: ThreadResolver) -> None:
    slow = [asyncio.create_task(resolver.resolve(f"slow {number}", 443)) for number in range(10)]
    await until(lambda: len(names.asked) == 10)
    (found,) = await resolver.resolve("quick", 443)
    assert (found["hostname"], found["host"], found["port"]) == ("quick", "192.0.2.1", 443)
    names.released.set()
    assert [row["host"] for rows in await asyncio.gather(*slow) for row in rows] == (
        ["192.0.2.1"] * 10
    )


async def test_a_name_is_looked_up_once_at_a_time(names: Names, resolver: ThreadResolver) -> None:
    given_up = asyncio.create_task(resolver.resolve("slow", 443))
    await until(lambda: names.asked == ["slow"])
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    others = [asyncio.create_task(resolver.resolve("slow", 443)) for _ in range(3)]
    await asyncio.sleep(0)
    names.released.set()
    await asyncio.gather(*others)
    assert names.asked == ["slow"]
    await resolver.resolve("slow", 443)
    assert names.asked == ["slow", "slow"]


async def test_a_name_without_an_address_is_an_error_also_if_nobody_waits(
    names: Names, resolver: ThreadResolver
) -> None:
    with pytest.raises(socket.gaierror):
        await resolver.resolve("nowhere", 443)
    waiting = asyncio.create_task(resolver.resolve("slow nowhere", 443))
    await until(lambda: "slow nowhere" in names.asked)
    waiting.cancel()
    names.released.set()
    # It is looked up again once the first look-up has ended.
    await until(lambda: not resolver._lookups)
    with pytest.raises(socket.gaierror):
        await resolver.resolve("slow nowhere", 443)


async def test_the_number_of_lookups_is_limited(names: Names, resolver: ThreadResolver) -> None:
    tasks = [asyncio.create_task(resolver.resolve(f"slow {n}", 443)) for n in range(MAX_LOOKUPS)]
    await until(lambda: len(names.asked) == MAX_LOOKUPS)
    with pytest.raises(TooManyLookupsError):
        await resolver.resolve("quick", 443)
    names.released.set()
    await asyncio.gather(*tasks)
    await resolver.resolve("quick", 443)


async def test_a_thread_that_cannot_start_is_an_error_once(
    names: Names, resolver: ThreadResolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(OSError, match="can't start new thread"):
            await resolver.resolve("quick", 443)
    assert await resolver.resolve("quick", 443)
    assert names.asked == ["quick"]
