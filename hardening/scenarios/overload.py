"""Five times the capacity: the service answers what it can and sheds the rest at once."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import count
from typing import Final

from hardening.findings import Finding, median, milliseconds, percentile
from hardening.harness import Harness, Running
from hardening.raw_http import NoResponseError, RawConnection
from hardening.seeding import Keys, SeededRepository, seed_new_store
from indexing.store import open_store
from tests.builders import load_names

SECONDS = 60.0
FACTOR = 5
MIN_GOODPUT = 0.8
REFUSED_WITHIN = 0.050
MAX_GROWTH = 1.1
TENANTS = 8
TESTS = 60_000
# Concurrencies high enough for the peak rate; the best result is the peak.
_PEAKS = (8, 16, 32)
_PEAK_SECONDS = 4.0
_TICK = 0.01
# The most connections that proxies and clients open; without a free one, a request is not sent.
_CONNECTIONS = 2_000
_SENT_AT_LEAST = 0.95
_FIRST_NUMBER = 1_000_000
# Why the cheapest responses cannot reach this.
_SHORT: Final = (
    "a process answers such a request in a sixth of a millisecond, so requests on all connections "
    "fit into its queue of half a second. Refusing one takes half as long as answering it, so both "
    "responses and refusals wait. Limit such clients at the proxy, or add workers"
)


@dataclass
class Load:
    """New requests with several credentials."""

    port: int
    keys: Sequence[str] = field(repr=False)
    targets: Iterator[str]
    statuses: Counter[int] = field(default_factory=Counter)
    unanswered: int = 0
    # Requests without a free connection.
    unsent: int = 0
    refusals: list[float] = field(default_factory=list)
    answers: list[float] = field(default_factory=list)
    _asked: int = 0

    async def send(self, connection: RawConnection) -> None:
        self._asked += 1
        key = self.keys[self._asked % len(self.keys)]
        try:
            response = await connection.request(next(self.targets), key)
        except (NoResponseError, OSError, TimeoutError):
            self.unanswered += 1
            return
        self.statuses[response.status] += 1
        if response.status == HTTPStatus.SERVICE_UNAVAILABLE:
            self.refusals.append(response.seconds)
        else:
            self.answers.append(response.seconds)


async def run(harness: Harness, *, seconds: float = SECONDS, tests: int = TESTS) -> list[Finding]:
    place = await harness.new_store("sqlite")
    (seeded,), _ = await seed_new_store(harness, place, ["acme/widgets"])
    opened = await open_store(place)
    try:
        names = [f"{'suite.' * 5}case_{number:05}" for number in range(tests)]
        await load_names(opened, names, repository=seeded.name, at=datetime.now(UTC))
        keys = [await Keys(harness, opened).make("acme") for _ in range(TENANTS)]
    finally:
        await opened.close()
    found = []
    for what, target_of, late in (
        ("searches", _search, ""),
        ("quick requests", _detail, _SHORT),
    ):
        # All of one length: longer patterns cost more.
        targets = (target_of(seeded, number) for number in count(_FIRST_NUMBER))
        async with harness.serve(place, log_level="info") as running:
            found += await _try(
                f"{FACTOR} times the capacity in {what}", running, keys, targets, seconds, late
            )
    return found


def _search(seeded: SeededRepository, number: int) -> str:
    """Return a new pattern that no index narrows: the search has to check every name."""
    path = seeded.targets()["search"].partition("?")[0]
    digits = "*".join(str(number))
    return f"{path}?test_name=*s*e*c*s*_*{digits}*9&per_page=20"


def _detail(seeded: SeededRepository, number: int) -> str:
    """Return a new request for a cached response: parsing the request costs the most."""
    return f"{seeded.targets()['test']}?unseen={number}"


async def _try(
    what: str,
    running: Running,
    keys: Sequence[str],
    targets: Iterator[str],
    seconds: float,
    late: str,
) -> list[Finding]:
    def new_load() -> Load:
        return Load(running.port, keys, targets)

    peak = max([await _peak(new_load(), clients) for clients in _PEAKS])
    load = new_load()
    overload = await _overload(load, running, peak * FACTOR, seconds)
    memory = overload.memory
    # The other load on the machine may have changed meanwhile.
    after = max([await _peak(new_load(), clients) for clients in _PEAKS])
    goodput = overload.answered / seconds
    best = max(peak, after)
    sent = overload.requests - load.unsent
    third = max(1, len(memory) // 3)
    growth = median(memory[-third:]) / median(memory[third : 2 * third])
    enough = sent >= _SENT_AT_LEAST * overload.requests
    unexpected = {code for code in load.statuses if code not in (200, 503)}
    return [
        Finding(
            f"{what}: goodput",
            f"{goodput:.0f} of {peak:.0f} (before) and {after:.0f} (after) a second at the peak: "
            f"{goodput / best:.0%} of the higher one; {seconds:.0f} s, "
            f"{sent / seconds:.0f} of {overload.requests / seconds:.0f} requests a second sent",
            f"{MIN_GOODPUT:.0%} of the peak",
            goodput >= MIN_GOODPUT * best and not unexpected and not load.unanswered and enough,
            f"responses: {dict(load.statuses)}, {load.unanswered} requests without one"
            + ("" if enough else f"; at most {_CONNECTIONS:,} requests were in flight: {late}"),
        ),
        Finding(
            f"{what}: refusals",
            f"{len(load.refusals):,}: median {milliseconds(median(load.refusals))}, p99 "
            f"{milliseconds(percentile(load.refusals, 0.99))} (responses: median "
            f"{milliseconds(median(load.answers))})",
            f"median under {milliseconds(REFUSED_WITHIN)}",
            bool(load.refusals) and median(load.refusals) < REFUSED_WITHIN,
            "" if median(load.refusals) < REFUSED_WITHIN else late,
        ),
        Finding(
            f"{what}: memory",
            f"× {growth:.3f} from the second third of the run to the last, "
            f"{max(memory) / 2**20:.0f} MiB at most",
            f"× {MAX_GROWTH} at most",
            growth <= MAX_GROWTH,
        ),
    ]


async def _peak(load: Load, clients: int) -> float:
    over = asyncio.Event()

    async def send_requests() -> None:
        connection = RawConnection(load.port)
        while not over.is_set():
            await load.send(connection)
        connection.abort()

    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(send_requests())
        await asyncio.sleep(_PEAK_SECONDS)
        got = load.statuses[HTTPStatus.OK] / _PEAK_SECONDS
        over.set()
    return got


@dataclass(frozen=True)
class _Overload:
    """The numbers of requests and answers within the time, and the memory for each second."""

    requests: int
    answered: int
    memory: list[int]


async def _overload(load: Load, running: Running, rate: float, seconds: float) -> _Overload:
    """Send requests at that rate, whatever the answers are."""
    free = [RawConnection(load.port) for _ in range(_CONNECTIONS)]
    tasks: set[asyncio.Task[None]] = set()
    memory: list[int] = []
    requests = 0

    async def one(connection: RawConnection) -> None:
        await load.send(connection)
        free.append(connection)

    began = time.monotonic()
    while (passed := time.monotonic() - began) < seconds:
        while requests < passed * rate:
            requests += 1
            if not free:
                load.unsent += 1
                continue
            task = asyncio.create_task(one(free.pop()))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        if len(memory) < passed:
            memory.append(running.memory())
        await asyncio.sleep(_TICK)
    answered = load.statuses[HTTPStatus.OK]
    await asyncio.gather(*tasks)
    for connection in free:
        connection.abort()
    return _Overload(requests, answered, memory)
