"""Streams of events, opened and read as a client does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
import orjson

from indexing.models.arrivals import ArrivalKey
from service.handlers.event_stream import ARRIVALS
from tests.service.front_door import LOGS, FrontDoor
from tests.waiting import until

STREAM = f"{LOGS}/stream"


@dataclass
class Stream:
    answer: aiohttp.ClientResponse
    last_id: str = ""
    retry: str = ""
    comments: int = 0
    # The ids of all events so far, by their places in the stream.
    _events: dict[str, int] = field(default_factory=dict)

    async def first_id(self) -> str:
        """Return the id that is sent before any event."""
        first = await self.answer.content.readuntil(b"\n\n")
        return first.split(b"\n")[0].removeprefix(b"id: ").decode()

    def follow(self, earlier: Stream) -> None:
        """Go on from another stream: what that one has returned is not returned again."""
        self._events |= earlier._events

    async def block(self) -> dict[str, str] | None:
        """Return the next event, or `None` at the end."""
        fields: dict[str, str] = {}
        async for line in self.answer.content:
            text = line.decode().rstrip("\n")
            name, _, value = text.partition(": ")
            if name == "id":
                self.last_id = value
            elif name == "retry":
                self.retry = value
            elif text.startswith(":"):
                self.comments += 1
                return {}
            if text and name:
                fields[name] = value
            elif "data" in fields:
                return fields
            else:
                fields = {}
        return None

    async def is_broken_off(self) -> bool:
        """Read to the end; return whether the connection breaks before the body is complete."""
        try:
            async with asyncio.timeout(20):
                await self.answer.content.read()
        except (aiohttp.ClientPayloadError, aiohttp.ClientConnectionError):
            return True
        return False

    async def ids(self, count: int) -> list[int]:
        """Return the ids of the next events, as `bodies` does."""
        return [*await self.bodies(count)]

    async def bodies(self, count: int) -> dict[int, bytes]:
        """Return the next events by their ids, each once, in order.

        On Elasticsearch, an event of a slow write comes again, at another place in the stream.
        """
        found: dict[int, bytes] = {}
        async with asyncio.timeout(20):
            while len(found) < count:
                block = await self.block()
                assert block is not None
                if block:
                    body = block["data"].encode()
                    event = orjson.loads(body)
                    assert block["event"] == event["type"]
                    assert self.last_id not in self._events
                    if event["id"] not in self._events.values():
                        found[event["id"]] = body
                    self._events[self.last_id] = event["id"]
        return found


@asynccontextmanager
async def opened(
    door: FrontDoor, key: str | None = None, target: str = STREAM, **headers: str
) -> AsyncIterator[Stream]:
    sent = {"Authorization": f"Bearer {key or door.key}"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    async with door.client.get(door.base + target, headers=sent) as answer:
        assert answer.status == 200, await answer.read()
        yield Stream(answer)


async def find_first_id(door: FrontDoor) -> str:
    """Return an id with which a stream resumes after all events so far."""
    async with opened(door) as stream:
        return await stream.first_id()


async def settle(door: FrontDoor, count: int) -> None:
    """Wait until this number of streams share the poll."""
    await until(lambda: sum(map(len, door.app[ARRIVALS]._subscriptions.values())) >= count)


async def await_arrivals(door: FrontDoor, count: int) -> None:
    """Wait until new streams begin after this number of events."""
    async with asyncio.timeout(20):
        while True:
            found = await door.store.list_arrivals(ArrivalKey(0), count)
            if len(found.rows) == count:
                return
            await asyncio.sleep(0.01)
