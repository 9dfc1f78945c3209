"""Ids, names and spellings of other tenants, with warm caches and disconnects: no data crosses."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from http import HTTPStatus

from hardening.findings import Finding
from hardening.ground import STORES, Ground
from hardening.stock import Keys, Stock, fill
from hardening.wire import UnansweredError, Wire, request
from indexing.names import RepositoryName
from indexing.store import open_store
from tests.servers.proxy import Delayed, Proxy

REQUESTS = 100_000
GONE = 0.3
CLIENTS = 48
REDIS_DELAY = 0.003
# Most names differ only in the position of the slash, the dash or the dot.
NAMES = (
    "a-b/c",
    "a/b-c",
    "a/b",
    "a-b/c-a",
    "ab/c",
    "a/b.c",
    "a/b_c",
    "acme/widgets",
    "acme/gadgets",
)
# Operations whose path contains the id of a resource in the repository.
_BY_ID = frozenset(
    {
        "test",
        "quarantine",
        "executions",
        "failures",
        "failure",
        "health",
        "test-transitions",
        "test-stats",
    }
)
# Operations whose responses do not contain the mark.
_UNMARKED = frozenset({"stats", "test-stats", "transitions", "test-transitions"})
_LISTED = re.compile(rb'"repository":"([^"]*)"')
_MARK = re.compile(rb"mark-\d{3}\.")


@dataclass(frozen=True)
class Probe:
    """A request with its key, and the mark that its response must contain, if set."""

    target: str
    key: str = field(repr=False)
    expected: HTTPStatus
    mark: bytes = b""
    # Requests with the same name must get equal responses, in every spelling of the target.
    name: str = ""
    # The repositories that a list of repositories must contain, and no others.
    listed: frozenset[bytes] | None = None


@dataclass
class Seen:
    asked: int = 0
    gone: int = 0
    unanswered: int = 0
    crossings: list[str] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    bodies: dict[str, bytes] = field(default_factory=dict)

    def judge(self, probe: Probe, status: int, body: bytes) -> None:
        self.statuses[status] += 1
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            return
        marks = set(_MARK.findall(body))
        expected = {probe.mark} if probe.mark else set()
        same = self.bodies.setdefault(probe.name, body) if probe.mark else body
        listed = frozenset(_LISTED.findall(body)) if probe.listed is not None else None
        if (status, marks, same, listed) != (probe.expected, expected, body, probe.listed):
            told = f"{status} with {listed or marks} to {probe.target}, not {probe.expected}"
            self.crossings.append(told)


async def run(
    ground: Ground, *, requests: int = REQUESTS, stores: Sequence[str] = STORES
) -> list[Finding]:
    found = []
    for store in stores:
        place = await ground.place(store)
        opened = await open_store(place)
        try:
            stocks = await fill(opened, NAMES)
            probes = await _make_probes(stocks, Keys(ground, opened))
        finally:
            await opened.close()
        async with AsyncExitStack() as stack:
            redis = stack.enter_context(ground.redis())
            proxy = await stack.enter_async_context(Proxy(redis.port.number))
            await proxy.turn(Delayed(REDIS_DELAY))
            url = f"redis://{proxy.address}/0"
            # Two services, so that each reads values that the other cached.
            services = [
                await stack.enter_async_context(
                    ground.serve(place, redis_url=url, log_level="info")
                )
                for _ in range(2)
            ]
            seen = Seen()
            ports = [service.port for service in services]
            async with asyncio.TaskGroup() as group:
                for number in range(CLIENTS):
                    group.create_task(
                        _ask(ports[number % 2], probes, requests, seen, random.Random(number))
                    )
            mistakes = [line for service in services for line in service.mistakes()]
        right = seen.statuses.total() - seen.statuses[HTTPStatus.SERVICE_UNAVAILABLE]
        found.append(
            Finding(
                f"crossings between repositories, {store}, Redis {REDIS_DELAY * 1000:.0f} ms away",
                f"{seen.asked:,} requests, {seen.gone:,} of clients that went away, {right:,} "
                f"answers judged: {len(seen.crossings)} crossings",
                f"0 in {requests:,} with {GONE:.0%} gone",
                not seen.crossings and not mistakes and not seen.unanswered,
                "; ".join([*seen.crossings[:3], *mistakes[:1]])
                or ", ".join(
                    f"{count:,} × {code}" for code, count in sorted(seen.statuses.items())
                ),
            )
        )
    return found


async def _ask(
    port: int, probes: Sequence[Probe], requests: int, seen: Seen, random_: random.Random
) -> None:
    wire = Wire(port)
    while seen.asked < requests:
        seen.asked += 1
        probe = random_.choice(probes)
        try:
            if random_.random() < GONE:
                seen.gone += 1
                await wire.send(request(probe.target, probe.key))
                if random_.random() < 0.5:
                    await asyncio.sleep(random_.random() * 2 * REDIS_DELAY)
                wire.abort()
                continue
            told = await wire.ask(probe.target, probe.key)
        except (UnansweredError, OSError):
            seen.unanswered += 1
            continue
        seen.judge(probe, told.status, told.body)
    wire.abort()


async def _make_probes(stocks: Sequence[Stock], keys: Keys) -> list[Probe]:
    found = []
    of_owners = {stock.name.owner: await keys.make(stock.name.owner) for stock in stocks}
    for stock in stocks:
        own = await keys.make(stock.name.owner, stock.name.name)
        loud = RepositoryName(stock.name.owner.upper(), stock.name.name.title())
        for operation in stock.targets():
            mark = b"" if operation in _UNMARKED else stock.mark.encode()
            for spelled in (stock.name, loud):
                target = stock.targets(spelled=spelled)[operation]
                # Links repeat the spelling, bodies do not.
                name = f"{operation} {stock.name.key}"
                found += [
                    Probe(target, key, HTTPStatus.OK, mark, name)
                    for key in (own, of_owners[stock.name.owner])
                ]
            for other in stocks:
                if other is stock:
                    continue
                if operation in _BY_ID:
                    target = stock.targets(of=other)[operation]
                    found.append(Probe(target, own, HTTPStatus.NOT_FOUND))
                found.append(Probe(other.targets()[operation], own, HTTPStatus.NOT_FOUND))
        found += _list_owned(stock, stocks, own, of_owners)
    return found


def _list_owned(
    stock: Stock, stocks: Sequence[Stock], own: str, of_owners: Mapping[str, str]
) -> Iterator[Probe]:
    """Yield requests for the list of repositories: by its own key, its owner's, and others'."""
    owner = stock.name.owner
    by_owner = frozenset(str(each.name).encode() for each in stocks if each.name.owner == owner)
    for spelled in (owner, owner.upper()):
        target = f"/v1/ci/{spelled}/repositories?per_page=100"
        itself = frozenset({str(stock.name).encode()})
        yield Probe(target, own, HTTPStatus.OK, listed=itself)
        yield Probe(f"{target}&sort=worst", of_owners[owner], HTTPStatus.OK, listed=by_owner)
        for other, key in of_owners.items():
            if other != owner:
                yield Probe(target, key, HTTPStatus.NOT_FOUND, listed=frozenset())
