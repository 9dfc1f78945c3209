"""Ids, names and spellings of other tenants, with warm caches and disconnects: no data leaks."""

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
from hardening.harness import STORES, Harness
from hardening.raw_http import NoResponseError, RawConnection, build_request
from hardening.seeding import Keys, SeededRepository, seed_store
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
    "umbrella/widgets",
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
    requests: int = 0
    gone: int = 0
    unanswered: int = 0
    leaks: list[str] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    bodies: dict[str, bytes] = field(default_factory=dict)

    def check(self, probe: Probe, status: int, body: bytes) -> None:
        self.statuses[status] += 1
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            return
        marks = set(_MARK.findall(body))
        expected = {probe.mark} if probe.mark else set()
        same = self.bodies.setdefault(probe.name, body) if probe.mark else body
        listed = frozenset(_LISTED.findall(body)) if probe.listed is not None else None
        if (status, marks, same, listed) != (probe.expected, expected, body, probe.listed):
            leak = f"{status} with {listed or marks} to {probe.target}, not {probe.expected}"
            self.leaks.append(leak)


async def run(
    harness: Harness, *, requests: int = REQUESTS, stores: Sequence[str] = STORES
) -> list[Finding]:
    found = []
    for store in stores:
        place = await harness.new_store(store)
        opened = await open_store(place)
        try:
            all_seeded = await seed_store(opened, NAMES)
            probes = await _make_probes(all_seeded, Keys(harness, opened))
        finally:
            await opened.close()
        async with AsyncExitStack() as stack:
            redis = stack.enter_context(harness.redis())
            proxy = await stack.enter_async_context(Proxy(redis.port.number))
            await proxy.turn(Delayed(REDIS_DELAY))
            url = f"redis://{proxy.address}/0"
            # Two services, so that each reads values that the other cached.
            services = [
                await stack.enter_async_context(
                    harness.serve(place, redis_url=url, log_level="info")
                )
                for _ in range(2)
            ]
            seen = Seen()
            ports = [service.port for service in services]
            async with asyncio.TaskGroup() as group:
                for number in range(CLIENTS):
                    group.create_task(
                        _request(ports[number % 2], probes, requests, seen, random.Random(number))
                    )
            service_errors = [line for service in services for line in service.service_errors()]
        right = seen.statuses.total() - seen.statuses[HTTPStatus.SERVICE_UNAVAILABLE]
        found.append(
            Finding(
                f"data of other repositories, {store}, Redis latency {REDIS_DELAY * 1000:.0f} ms",
                f"{seen.requests:,} requests, {seen.gone:,} of them aborted, {right:,} "
                f"responses checked: {len(seen.leaks)} leaks",
                f"0 leaks in {requests:,} requests, {GONE:.0%} aborted",
                right > 0 and not seen.leaks and not service_errors and not seen.unanswered,
                "; ".join([*seen.leaks[:3], *service_errors[:1]])
                or ", ".join(
                    f"{count:,} × {code}" for code, count in sorted(seen.statuses.items())
                ),
            )
        )
    return found


async def _request(
    port: int, probes: Sequence[Probe], requests: int, seen: Seen, random_: random.Random
) -> None:
    connection = RawConnection(port)
    while seen.requests < requests:
        seen.requests += 1
        probe = random_.choice(probes)
        try:
            if random_.random() < GONE:
                seen.gone += 1
                await connection.send(build_request(probe.target, probe.key))
                if random_.random() < 0.5:
                    await asyncio.sleep(random_.random() * 2 * REDIS_DELAY)
                connection.abort()
                continue
            response = await connection.request(probe.target, probe.key)
        except (NoResponseError, OSError):
            seen.unanswered += 1
            continue
        seen.check(probe, response.status, response.body)
    connection.abort()


async def _make_probes(all_seeded: Sequence[SeededRepository], keys: Keys) -> list[Probe]:
    found = []
    of_owners = {seeded.name.owner: await keys.make(seeded.name.owner) for seeded in all_seeded}
    for seeded in all_seeded:
        own = await keys.make(seeded.name.owner, seeded.name.name)
        loud = RepositoryName(seeded.name.owner.upper(), seeded.name.name.title())
        for operation in seeded.targets():
            mark = b"" if operation in _UNMARKED else seeded.mark.encode()
            for spelled in (seeded.name, loud):
                target = seeded.targets(spelled=spelled)[operation]
                # Links repeat the spelling, bodies do not.
                name = f"{operation} {seeded.name.key}"
                found += [
                    Probe(target, key, HTTPStatus.OK, mark, name)
                    for key in (own, of_owners[seeded.name.owner])
                ]
            for other in all_seeded:
                if other is seeded:
                    continue
                if operation in _BY_ID:
                    target = seeded.targets(of=other)[operation]
                    found.append(Probe(target, own, HTTPStatus.NOT_FOUND))
                found.append(Probe(other.targets()[operation], own, HTTPStatus.NOT_FOUND))
        found += _list_owned(seeded, all_seeded, own, of_owners)
    return found


def _list_owned(
    seeded: SeededRepository,
    all_seeded: Sequence[SeededRepository],
    own: str,
    of_owners: Mapping[str, str],
) -> Iterator[Probe]:
    """Yield requests for the list of repositories: by its own key, its owner's, and others'."""
    owner = seeded.name.owner
    by_owner = frozenset(str(each.name).encode() for each in all_seeded if each.name.owner == owner)
    for spelled in (owner, owner.upper()):
        target = f"/v1/ci/{spelled}/repositories?per_page=100"
        itself = frozenset({str(seeded.name).encode()})
        yield Probe(target, own, HTTPStatus.OK, listed=itself)
        yield Probe(f"{target}&sort=worst", of_owners[owner], HTTPStatus.OK, listed=by_owner)
        for other, key in of_owners.items():
            if other != owner:
                yield Probe(target, key, HTTPStatus.NOT_FOUND, listed=frozenset())
