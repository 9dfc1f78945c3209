"""A key revoked while in use: after a minute, no request with it succeeds."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from http import HTTPStatus

from hardening.findings import Finding
from hardening.harness import STORES, Harness, Running
from hardening.raw_http import NoResponseError, RawConnection
from hardening.seeding import SeededRepository, seed_new_store
from tests.places import Place

BOUND = 60.0
# Longer than the bound, so that late answers show.
WATCHED = 75.0
# Before the revocation every request succeeds; at the end, none does.
_BEFORE = 2.0
_AT_THE_END = 5.0
CLIENTS = 4
AVAILABLE, DOWN, UNREACHABLE = "available", "down", "unreachable for the revoking process"
REDIS_STATES = (AVAILABLE, DOWN, UNREACHABLE)
# A port without a listener.
NOWHERE = 1


@dataclass
class Case:
    """Two services over one store; one may not have seen the revocation."""

    store: str
    how: str
    place: Place
    services: list[Running]
    seeded: SeededRepository
    key: str
    settings: dict[str, str]


async def run(
    harness: Harness, *, watched: float = WATCHED, stores: Sequence[str] = STORES
) -> list[Finding]:
    async with AsyncExitStack() as stack:
        cases = [
            await _prepare(harness, stack, store, how) for store in stores for how in REDIS_STATES
        ]
        return list(await asyncio.gather(*(_watch(harness, case, watched) for case in cases)))


async def _prepare(harness: Harness, stack: AsyncExitStack, store: str, how: str) -> Case:
    place = await harness.new_store(store)
    (seeded,), key = await seed_new_store(harness, place, ["acme/widgets"], key_id="revoked")
    redis = stack.enter_context(harness.redis())
    settings = {"redis_url": redis.url, "log_level": "info"}
    services = [await stack.enter_async_context(harness.serve(place, **settings)) for _ in range(2)]
    # The revoking process may not reach the Redis that the services use.
    apart = {"redis_url": f"redis://127.0.0.1:{NOWHERE}/0"} if how == UNREACHABLE else settings
    case = Case(store, how, place, services, seeded, key, apart)
    if how == DOWN:
        redis.kill()
    return case


async def _watch(harness: Harness, case: Case, watched: float) -> Finding:
    load = _Load(case)
    async with asyncio.TaskGroup() as group:
        for service in case.services:
            for _ in range(CLIENTS // 2):
                group.create_task(load.send_requests(service.port))
        # Here the services cache the key, as late as possible.
        await asyncio.sleep(_BEFORE)
        before = load.pop_statuses()
        began = time.monotonic()
        status, _, said = await harness.command(
            case.place, "keys", "revoke", "revoked", **case.settings
        )
        await asyncio.sleep(watched - _AT_THE_END)
        meanwhile = load.pop_statuses()
        await asyncio.sleep(_AT_THE_END)
        load.over.set()
    afterwards = load.pop_statuses()
    took = max(0.0, load.last - began)
    return Finding(
        f"revocation under load, {case.store}, Redis {case.how}",
        f"before: {before}; last 200 {took:.1f} s after the command started, watched for "
        f"{watched:.0f} s; at the end: {afterwards}",
        f"only 200 before, none after {BOUND:.0f} s, only 403 at the end",
        {*before} == {HTTPStatus.OK}
        and took <= BOUND
        and status == 0
        and {*meanwhile} <= {200, 403, 503}
        and {*afterwards} == {HTTPStatus.FORBIDDEN},
        said.strip()[-200:] if status else f"meanwhile: {meanwhile}",
    )


class _Load:
    """Clients of both services that keep using the same key."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self.over = asyncio.Event()
        self.last = 0.0
        self.statuses: Counter[int] = Counter()

    def pop_statuses(self) -> dict[int, int]:
        """Return the count of each status since the last call."""
        taken, self.statuses = dict(self.statuses), Counter()
        return taken

    async def send_requests(self, port: int) -> None:
        connection = RawConnection(port)
        targets = list(self._case.seeded.targets().values())
        while not self.over.is_set():
            for target in targets:
                try:
                    response = await connection.request(target, self._case.key)
                except NoResponseError:
                    continue
                self.statuses[response.status] += 1
                if response.status == HTTPStatus.OK:
                    self.last = time.monotonic()
            await asyncio.sleep(0.01)
        connection.abort()
