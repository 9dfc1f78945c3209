"""Bodies and queries with the highest cost for their size: they do not delay other tenants."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic

from hardening.bodies import HostileBody, hostile_lines, hostile_spans
from hardening.findings import Finding
from hardening.harness import STORES, Harness
from hardening.raw_http import NoResponseError, RawConnection
from hardening.tenants import Sent, Tenants, watched_tenants

AT_ONCE = 2
# The time limit of each group; the report names the number of untried bodies.
_GROUP_SECONDS = 45.0
QUERIES_AT_ONCE = 15
_QUERY_SECONDS = 1.0


async def run(
    harness: Harness,
    *,
    stores: Sequence[str] = STORES,
    make_lines: Callable[[], list[HostileBody]] = hostile_lines,
    make_spans: Callable[[], list[HostileBody]] = hostile_spans,
) -> list[Finding]:
    # Build the bodies first, so that only the service can disturb the watcher.
    groups = {"hostile event lines": make_lines(), "hostile spans": make_spans()}
    found = []
    for store in stores:
        for what, bodies in groups.items():
            place = await harness.new_store(store)
            async with watched_tenants(harness, place) as tenants:
                sent, tried, end = Sent(), 0, monotonic() + _GROUP_SECONDS
                for body in bodies:
                    if monotonic() < end:
                        tried += 1
                        async with tenants.watcher.during(body.name):
                            await _send(tenants, body, sent)
            found += _judge(f"{what}, {store}", tried, len(bodies), tenants, sent)
        place = await harness.new_store(store)
        async with watched_tenants(harness, place) as tenants:
            sent = Sent()
            queries = _queries(tenants)
            for name, target in queries.items():
                async with tenants.watcher.during(name):
                    await _request(tenants, target, sent)
        found += _judge(f"hostile queries, {store}", len(queries), len(queries), tenants, sent)
    return found


async def _send(tenants: Tenants, body: HostileBody, sent: Sent) -> None:
    """Send a body over several connections at once."""
    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(tenants.send(body, sent))


async def _request(tenants: Tenants, target: str, sent: Sent) -> None:
    """Send one request over many connections for a while."""
    end = monotonic() + _QUERY_SECONDS

    async def send_requests() -> None:
        connection = RawConnection(tenants.port)
        while monotonic() < end:
            try:
                response = await connection.request(target, tenants.sender_key)
            except (NoResponseError, OSError, TimeoutError) as error:
                # A server that stops reading a request line may reset the connection.
                sent.unanswered.append(f"{target[:60]}: {type(error).__name__}")
            else:
                sent.record(response.status, response.header("retry-after"), target[:60])
        connection.abort()

    async with asyncio.TaskGroup() as group:
        for _ in range(QUERIES_AT_ONCE):
            group.create_task(send_requests())


def _queries(tenants: Tenants) -> dict[str, str]:
    """Return targets of 242 KB, and the worst targets of 8,000 bytes."""
    found: dict[str, str] = {}
    for operation, target in tenants.sender.targets().items():
        if operation not in ("events", "search"):
            continue
        path = target.partition("?")[0]
        room = 8_000 - len(path) - 40
        found |= {
            f"{operation}?a&a&… of 242 KB": f"{path}?{'a&' * 121_000}",
            f"{operation}?a&a&…": f"{path}?{'a&' * (room // 2)}",
            f"{operation}?%61&%61&…": f"{path}?{'%61&' * (room // 4)}",
            f"{operation}?per_page=1&per_page=1&…": f"{path}?{'per_page=1&' * (room // 11)}",
            f"{operation}?cursor=%00%00…": f"{path}?cursor={'%00' * (room // 3)}",
        }
    path = tenants.sender.targets()["search"].partition("?")[0]
    names = "&".join(f"test_name={'*?' * 15}{n:03}" for n in range(100))
    return found | {"search for 100 globs": f"{path}?{names}"}


def _judge(what: str, tried: int, count: int, tenants: Tenants, sent: Sent) -> list[Finding]:
    service_errors = [*sent.service_errors, *tenants.running.service_errors()]
    return [
        tenants.watcher.report(what),
        Finding(
            f"responses to {what}",
            f"{tried} of {count} kinds sent: {sent}",
            "all sent and answered, no 5xx except 503 with Retry-After",
            tried == count and not service_errors and not sent.unanswered,
            "; ".join([*service_errors[:2], *sent.unanswered[:2]]),
        ),
    ]
