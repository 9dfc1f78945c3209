"""The largest searches that fit into a target: answered, without harm to other tenants."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from hardening.findings import Finding, median, milliseconds
from hardening.harness import STORES, Harness
from hardening.raw_http import NoResponseError, RawConnection
from hardening.tenants import SENDER, Tenants, watched_tenants
from indexing.names import RepositoryName
from indexing.store import ElasticsearchPlace, open_store
from indexing.store.sqlite.connections import SLOW_READ_SECONDS
from tests.builders import load_names
from tests.places import Place

TESTS = 20_000
TIMES = 6
AT_ONCE = 2
# The size limit of a target; one byte more is refused.
MAX_BYTES: Final = 8_000
BEYOND: Final = (MAX_BYTES + 1, 16_000, 60_000, 240_000)
HEAP = "512m"
_BATCH: Final = 5_000
_PATH: Final = f"/v1/ci/{SENDER.replace('/', '/repositories/')}/search/tests"


async def run(
    harness: Harness, *, tests: int = TESTS, times: int = TIMES, stores: Sequence[str] = STORES
) -> list[Finding]:
    found = []
    for store in stores:
        if store == "sqlite":
            found += await _try(harness, await harness.new_store(store), store, tests, times)
            continue
        # An own node, so that the circuit breakers of its small heap affect no other scenario.
        with harness.own_node(HEAP) as node:
            place = ElasticsearchPlace((node.url,), "searches")
            found += await _try(harness, place, store, tests, times)
    return found


async def _try(harness: Harness, place: Place, store: str, tests: int, times: int) -> list[Finding]:
    await _load(place, tests)
    async with watched_tenants(harness, place) as tenants:
        seen = {}
        for name, query in _queries().items():
            async with tenants.watcher.during(name):
                seen[name] = await _request(tenants, query, times)
        beyond = await _request_beyond(tenants)
    statuses = sum((counted for counted, _ in seen.values()), Counter[str]())
    took = [each for _, seconds in seen.values() for each in seconds]
    failed = {name: dict(counted) for name, (counted, _) in seen.items() if set(counted) != {"200"}}
    slowest = max(seen, key=lambda name: max(seen[name][1], default=0.0))
    service_errors = tenants.running.service_errors()
    what = f"searches of {MAX_BYTES:,} bytes over {tests:,} tests, {store}"
    return [
        Finding(
            what,
            f"{statuses.total()}, of {len(seen)} kinds: {_list(statuses)}; median "
            f"{milliseconds(median(took))}, slowest {milliseconds(max(took, default=0.0))} "
            f"({slowest})",
            f"only 200, within {SLOW_READ_SECONDS:.0f} s",
            not failed and not service_errors and max(took, default=99.0) < SLOW_READ_SECONDS,
            "; ".join(
                [*(f"{name}: {counted}" for name, counted in failed.items()), *service_errors[:2]]
            ),
        ),
        tenants.watcher.report(what),
        Finding(
            f"targets of more than {MAX_BYTES:,} bytes, {store}",
            ", ".join(f"{size:,} bytes: {status}" for size, status in beyond.items()),
            "414 with a problem",
            set(beyond.values()) == {"414"},
        ),
    ]


def _queries() -> dict[str, str]:
    """Return queries near the size limit of a target, each the worst of an accepted kind.

    A request has at most 500 wildcards; each `?` before the first `*` of a pattern is free.
    """
    room = MAX_BYTES - len(_PATH) - 60
    hundredth, thirtieth, third = (room // n - len("&test_name=") - 3 for n in (100, 31, 3))
    most = min(third, 2_000)
    stars = "*a" * 15
    return {
        "100 patterns of `?`": _names(["?" * hundredth + f"{n:03}" for n in range(100)]),
        "100 patterns of `?` and 5 wildcards": _names(
            ["?" * (hundredth - 5) + "*?*?*" + f"{n:03}" for n in range(100)]
        ),
        "31 patterns of `?` and 16 `*`": _names(
            ["?" * (thirtieth - 32) + f"{stars}*b{n:02}" for n in range(31)]
        ),
        "31 patterns of 16 `*` that match nothing": _names([f"{stars}*b{n:02}" for n in range(31)]),
        "3 patterns of `?`": _names(["?" * most + f"{n}" for n in range(3)]),
        "3 patterns of `?`, `*` and 160 `?`": _names(
            ["?" * (most - 161) + "*" + "?" * 160 + f"{n}" for n in range(3)]
        ),
        "3 patterns of 15 `*` among `?`": _names(
            ["?" * (most - 165) + ("*" + "?" * 10) * 15 + f"{n}" for n in range(3)]
        ),
        "80 patterns of `?` and two letters in varying places": _names(
            ["?" * (n // 2) + "a?????b" + "?" * (45 - n // 2) for n in range(80)]
        ),
        "100 names that exist": _names([f"abab.{'a' * 40}.{n:06}" for n in range(100)]),
    }


def _names(patterns: Sequence[str]) -> str:
    return "&".join(f"test_name={quote(pattern, safe='*?.')}" for pattern in patterns)


async def _request(tenants: Tenants, query: str, times: int) -> tuple[Counter[str], list[float]]:
    """Send new requests, a few at once."""
    counted, seconds, left = Counter[str](), list[float](), iter(range(times))

    async def send_requests() -> None:
        connection = RawConnection(tenants.port)
        for number in left:
            target = f"{_PATH}?{query}&per_page={number + 1}"
            outcome = await _status(connection, tenants, target)
            counted[outcome[0]] += 1
            seconds.append(outcome[1])
        connection.abort()

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(send_requests())
    return counted, seconds


async def _request_beyond(tenants: Tenants) -> dict[int, str]:
    found = {}
    for size in BEYOND:
        connection = RawConnection(tenants.port)
        begin = f"{_PATH}?test_name="
        # Repeat values of the allowed length up to the size.
        value = "?" * 1_900 + "&test_name="
        target = (begin + value * (size // len(value) + 1))[:size]
        found[size], _ = await _status(connection, tenants, target.rstrip("&"))
        connection.abort()
    return found


async def _status(connection: RawConnection, tenants: Tenants, target: str) -> tuple[str, float]:
    try:
        response = await connection.request(target, tenants.sender_key)
    except (NoResponseError, OSError, TimeoutError) as error:
        return type(error).__name__, 0.0
    kind = response.header("content-type") or ""
    is_clear = response.status == HTTPStatus.OK or kind.startswith("application/problem+json")
    return f"{response.status}{'' if is_clear else ' without a problem'}", response.seconds


async def _load(place: Place, count: int) -> None:
    store = await open_store(place)
    name, now = RepositoryName(*SENDER.split("/")), datetime.now(UTC)
    try:
        # Names that match all of a pattern but its end in many ways, and names as long as patterns.
        names = [f"abab.{'a' * 40 * (1 + number % 3)}.{number:06}" for number in range(count)]
        for first in range(0, count, _BATCH):
            await load_names(store, names[first : first + _BATCH], repository=name, at=now)
    finally:
        await store.close()


def _list(statuses: Counter[str]) -> str:
    return ", ".join(f"{count:,} × {status}" for status, count in sorted(statuses.items()))
