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
from hardening.ground import STORES, Ground, Running
from hardening.stock import Stock, prepared
from hardening.wire import UnansweredError, Wire
from tests.places import Place

BOUND = 60.0
# Longer than the bound, so that late answers show.
WATCHED = 75.0
# Before the revocation every request succeeds; at the end, none does.
_BEFORE = 2.0
_AT_THE_END = 5.0
CLIENTS = 4
THERE, GONE, HIDDEN = "there", "gone", "out of reach of who revokes"
HOWS = (THERE, GONE, HIDDEN)
# A port without a listener.
NOWHERE = 1


@dataclass
class Case:
    """Two services over one store; one may not have seen the revocation."""

    store: str
    how: str
    place: Place
    services: list[Running]
    stock: Stock
    key: str
    settings: dict[str, str]


async def run(
    ground: Ground, *, watched: float = WATCHED, stores: Sequence[str] = STORES
) -> list[Finding]:
    async with AsyncExitStack() as stack:
        cases = [await _prepare(ground, stack, store, how) for store in stores for how in HOWS]
        return list(await asyncio.gather(*(_watch(ground, case, watched) for case in cases)))


async def _prepare(ground: Ground, stack: AsyncExitStack, store: str, how: str) -> Case:
    place = await ground.place(store)
    (stock,), key = await prepared(ground, place, ["acme/widgets"], key_id="revoked")
    redis = stack.enter_context(ground.redis())
    settings = {"redis_url": redis.url, "log_level": "info"}
    services = [await stack.enter_async_context(ground.serve(place, **settings)) for _ in range(2)]
    # The revoking process may not reach the Redis that the services use.
    apart = {"redis_url": f"redis://127.0.0.1:{NOWHERE}/0"} if how == HIDDEN else settings
    case = Case(store, how, place, services, stock, key, apart)
    if how == GONE:
        redis.kill()
    return case


async def _watch(ground: Ground, case: Case, watched: float) -> Finding:
    load = _Load(case)
    async with asyncio.TaskGroup() as group:
        for service in case.services:
            for _ in range(CLIENTS // 2):
                group.create_task(load.go_on(service.port))
        # Here the services cache the key, as late as possible.
        await asyncio.sleep(_BEFORE)
        before = load.take()
        began = time.monotonic()
        status, _, said = await ground.command(
            case.place, "keys", "revoke", "revoked", **case.settings
        )
        await asyncio.sleep(watched - _AT_THE_END)
        meanwhile = load.take()
        await asyncio.sleep(_AT_THE_END)
        load.over.set()
    afterwards = load.take()
    took = max(0.0, load.last - began)
    return Finding(
        f"revocation under load, {case.store}, Redis {case.how}",
        f"before it {before}; the last answer {took:.1f} s after it was begun, watched for "
        f"{watched:.0f} s; in the end {afterwards}",
        f"200 alone before it, none after {BOUND:.0f} s, 403 alone in the end",
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

    def take(self) -> dict[int, int]:
        """Return the count of each status since the last call."""
        taken, self.statuses = dict(self.statuses), Counter()
        return taken

    async def go_on(self, port: int) -> None:
        wire = Wire(port)
        targets = list(self._case.stock.targets().values())
        while not self.over.is_set():
            for target in targets:
                try:
                    told = await wire.ask(target, self._case.key)
                except UnansweredError:
                    continue
                self.statuses[told.status] += 1
                if told.status == HTTPStatus.OK:
                    self.last = time.monotonic()
            await asyncio.sleep(0.01)
        wire.abort()
