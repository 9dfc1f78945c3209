"""Live tails of the event log, of the API and of the dashboard: 1,000 open while events arrive.

They share one poll of the store, other requests stay quick, each tail takes little memory, and
SIGTERM ends every tail in order.
"""

from __future__ import annotations

import asyncio
import re
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import aiohttp

from hardening.findings import Finding, milliseconds, percentile
from hardening.harness import Harness, HarnessError, Running
from hardening.raw_http import build_request, read_head
from hardening.seeding import Keys, SeededRepository, seed_store, warm
from hardening.watcher import read_metrics, watch
from indexing.names import RepositoryName
from indexing.store import open_store
from indexing.store.interface import Store
from service.streaming.hub import POLL_SECONDS
from tests.builders import make_event
from tests.signing_in import sign_in

TAILS: Final = 950
DASHBOARD_TAILS: Final = 50
SECONDS: Final = 20.0
MAX_P99: Final = 0.1
MAX_BYTES: Final = 100_000
EXIT_SECONDS: Final = 10.0

_EVENTS_A_SECOND: Final = 4
_OPENED_AT_ONCE: Final = 50
_DEADLINE: Final = 60.0
_POLLS: Final = re.compile(
    r'^mergewatch_store_seconds_count\{.*call="list_arrivals".*\} (\S+)', re.MULTILINE
)


@dataclass
class Tail:
    """One open stream, what it has received, and whether it ended in order."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    received: int = 0
    ended_in_order: bool = False
    _wanted: int = 0
    _has_all: asyncio.Event = field(default_factory=asyncio.Event)

    async def follow(self) -> None:
        """Count events until the stream ends; its last chunk is empty."""
        last = b""
        try:
            while line := await self.reader.readline():
                self.received += line.startswith(b"data: ")
                if self._wanted and self.received >= self._wanted:
                    self._has_all.set()
                last = line.strip() or last
        except ConnectionError:
            return
        finally:
            self.writer.close()
        self.ended_in_order = last == b"0"

    async def wait_for(self, events: int) -> None:
        """Wait until so many events were received."""
        self._wanted = events
        if self.received < events:
            await self._has_all.wait()


async def run(
    harness: Harness,
    *,
    tails: int = TAILS,
    dashboard_tails: int = DASHBOARD_TAILS,
    seconds: float = SECONDS,
) -> list[Finding]:
    place = await harness.new_store("sqlite")
    store = await open_store(place)
    try:
        (seeded,) = await seed_store(store, ["acme/widgets"])
        keys = Keys(harness, store)
        key = await keys.make("acme")
        async with harness.serve(place, log_level="info", metrics="true") as running:
            await warm(running.port, seeded, key)
            cookie = await _sign_in(running.port, await keys.make("acme"))
            api = build_request(f"/v1/repos/{seeded.name}/logs/stream", key)
            page = build_request(f"/ui/{seeded.name}/events/stream", None, b"Cookie: " + cookie)
            # The name of the cookie depends on the host.
            page = page.replace(b"service.example", b"127.0.0.1:%d" % running.port)
            requests = [api] * tails + [page] * dashboard_tails
            return await _measure(running, store, seeded, key, requests, seconds)
    finally:
        await store.close()


async def _measure(
    running: Running,
    store: Store,
    seeded: SeededRepository,
    key: str,
    requests: Sequence[bytes],
    seconds: float,
) -> list[Finding]:
    before = running.memory()
    async with (
        _arriving(store, seeded.name) as arrived,
        watch(running.port, seeded.targets()["test"], key, baseline=seconds) as watcher,
    ):
        async with watcher.during("opening"):
            opened = await _open_all(running.port, requests)
        following = [asyncio.create_task(tail.follow()) for tail in opened]
        # Each is sent all that follows its start; one event may be on its way at this moment.
        begin = len(arrived) + 1
        polls, began = await _count_polls(running.port), time.monotonic()
        async with watcher.during("tails"):
            await asyncio.sleep(seconds)
        polls = await _count_polls(running.port) - polls
        polled = time.monotonic() - began
        memory = running.memory() - before
    await _wait_for_all(opened, len(arrived) - begin)
    running.process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    status = await asyncio.to_thread(running.process.wait, 60)
    took = time.monotonic() - began
    await asyncio.gather(*following)
    count, events = len(opened), len(arrived) - begin
    late = [tail for tail in opened if tail.received < events]
    cut = [tail for tail in opened if not tail.ended_in_order]
    with_tails, without = watcher.waits("tails"), watcher.waits("baseline")
    p99 = percentile(with_tails.seconds, 0.99)
    return [
        Finding(
            f"a cached read while {count:,} live tails get {_EVENTS_A_SECOND} events a second",
            f"{with_tails}; without tails: {without}; the loop's own lag: {watcher.describe_lag()}",
            f"p99 at most {milliseconds(MAX_P99)}, 0 failed",
            bool(with_tails.seconds) and p99 <= MAX_P99 and not with_tails.failed,
        ),
        Finding(
            f"reads of the store for {count:,} live tails",
            f"{polls / polled:.2f} a second",
            f"those of one poll: at most {1 / POLL_SECONDS:.0f} a second",
            0 < polls <= polled / POLL_SECONDS + 1,
        ),
        Finding(
            "memory of a live tail, its connection included",
            f"{memory / count / 1000:.1f} kB",
            f"at most {MAX_BYTES / 1000:.0f} kB",
            memory / count <= MAX_BYTES,
        ),
        Finding(
            f"events that {count:,} live tails received",
            f"{events} arrived, {len(late)} tails miss some",
            "0",
            events > 0 and not late,
        ),
        Finding(
            f"SIGTERM with {count:,} live tails",
            f"{len(cut)} cut off, exit after {took:.2f} s with status {status}, "
            f"{len(running.service_errors())} errors in the log",
            f"0, within {EXIT_SECONDS:.0f} s, 0, 0",
            not cut and took < EXIT_SECONDS and status == 0 and not running.service_errors(),
            "; ".join(running.service_errors()[:2]),
        ),
    ]


@asynccontextmanager
async def _arriving(store: Store, repository: RepositoryName) -> AsyncIterator[list[int]]:
    """Store events until the context exits; yield the ids of those that are stored."""
    arrived: list[int] = []
    ends = asyncio.Event()

    async def send() -> None:
        while not ends.is_set():
            number = 1_000_000 + len(arrived)
            event = make_event(number, datetime.now(UTC), repository=repository)
            await store.write_events([event])
            arrived.append(number)
            await asyncio.sleep(1 / _EVENTS_A_SECOND)

    sending = asyncio.create_task(send())
    try:
        yield arrived
    finally:
        ends.set()
        await sending


async def _open_all(port: int, requests: Sequence[bytes]) -> list[Tail]:
    tails: list[Tail] = []
    for begin in range(0, len(requests), _OPENED_AT_ONCE):
        some = requests[begin : begin + _OPENED_AT_ONCE]
        tails += await asyncio.gather(*(_open(port, each) for each in some))
    return tails


async def _open(port: int, request: bytes) -> Tail:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    status, _ = read_head(await reader.readuntil(b"\r\n\r\n"))
    # The stream begins with the place from which it goes on.
    if status != 200 or b"id: " not in await reader.readuntil(b"\n\n"):
        raise HarnessError(f"a live tail was not opened: {status}")
    return Tail(reader, writer)


async def _count_polls(port: int) -> float:
    return sum(float("".join(found)) for found in await read_metrics(port, _POLLS))


async def _wait_for_all(tails: Sequence[Tail], events: int) -> None:
    """Wait until each tail has so many events, or the time is over."""
    try:
        async with asyncio.timeout(_DEADLINE):
            await asyncio.gather(*(tail.wait_for(events) for tail in tails))
    except TimeoutError:
        return


async def _sign_in(port: int, key: str) -> bytes:
    """Sign in to the dashboard; return the cookies to send."""
    url = f"http://127.0.0.1:{port}"
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as client:
        await sign_in(client, url, key)
        return "; ".join(f"{each.key}={each.value}" for each in client.cookie_jar).encode()
