"""The dearest patterns over the names that suit them worst: an answer in bounded time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from urllib.parse import quote

from hardening.findings import Finding, median, milliseconds
from hardening.ground import STORES, Ground
from hardening.stock import Keys
from hardening.wire import Wire
from indexing.models.executions import Conclusion
from indexing.names import RepositoryName
from indexing.store import open_store
from indexing.store.sqlite.connections import SLOW_READ_SECONDS
from tests.builders import make_executions, make_run
from tests.places import Place

TESTS = 100_000
ROUNDS = 15
BOUND = 0.250
SEARCH = "/v1/ci/acme/repositories/widgets/search/tests"
_BATCH = 10_000
# `*` sixteen times is the most that a pattern may have, 500 wildcards the most that a request may.
_NAMED = "*a" * 16 + "*b"
_DEAREST = "*a" * 15 + "*b{}"
_MANY = 31


async def run(
    ground: Ground, *, tests: int = TESTS, rounds: int = ROUNDS, stores: Sequence[str] = STORES
) -> list[Finding]:
    found = []
    for store in stores:
        place = await ground.place(store)
        key = await _load(ground, place, tests)
        async with ground.serve(place) as running:
            wire = Wire(running.port)
            told = await wire.ask(f"{SEARCH}?test_name=*", key)
            healthy = told.seconds
            for what, pattern in {
                "`*a` × 16 + `*b`": _NAMED,
                "`*a` × 15 + `*b`, the dearest that is taken": _DEAREST,
            }.items():
                times, statuses = [], set()
                for number in range(rounds):
                    query = f"test_name={quote(pattern.format(number))}"
                    told = await wire.ask(f"{SEARCH}?{query}", key)
                    times.append(told.seconds)
                    statuses.add(told.status)
                found.append(_judge(f"{what}, {store}", tests, times, statuses, healthy))
            query = "&".join(f"test_name={quote(_DEAREST.format(n))}" for n in range(_MANY))
            told = await wire.ask(f"{SEARCH}?{query}", key)
            found.append(
                Finding(
                    f"{_MANY} such patterns at once, {store}",
                    f"{told.status} after {milliseconds(told.seconds)}",
                    f"200 or 503 within {SLOW_READ_SECONDS:.0f} s, the service's own limit",
                    told.status in (HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE)
                    and told.seconds < SLOW_READ_SECONDS,
                )
            )
            wire.abort()
    return found


def _judge(
    what: str, tests: int, times: list[float], statuses: set[int], healthy: float
) -> Finding:
    slowest = max(times)
    return Finding(
        what,
        f"{'/'.join(map(str, sorted(statuses)))}, median {milliseconds(median(times))}, slowest "
        f"{milliseconds(slowest)} over {tests:,} tests (a page of all: {milliseconds(healthy)})",
        f"median under {milliseconds(BOUND)}",
        # The slowest of a busy machine is shown, and not judged.
        median(times) < BOUND and statuses <= {200, 422},
    )


async def _load(ground: Ground, place: Place, count: int) -> str:
    store = await open_store(place)
    name, run, now = RepositoryName("acme", "widgets"), make_run(), datetime.now(UTC)
    try:
        await store.ensure_repository(name)
        for first in range(0, count, _BATCH):
            # Many ways to match all of a pattern but its end.
            numbers = range(first, min(count, first + _BATCH))
            batch = [(f"abab.{'a' * 40}.{number:06}", Conclusion.PASSED) for number in numbers]
            executions = make_executions(run, batch, now, repository=name)
            await store.write_executions(name, run, executions)
        await store.refresh_tests(now)
        return await Keys(ground, store).make("acme")
    finally:
        await store.close()
