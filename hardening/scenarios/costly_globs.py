"""The costliest patterns over the worst names for them: responses take a bounded time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from urllib.parse import quote

from hardening.findings import Finding, median, milliseconds, percentile
from hardening.harness import STORES, Harness
from hardening.raw_http import RawConnection
from hardening.seeding import Keys
from indexing.models.executions import Conclusion
from indexing.names import RepositoryName
from indexing.store import open_store
from indexing.store.sqlite.connections import SLOW_READ_SECONDS
from tests.builders import make_executions, make_run
from tests.places import Place

TESTS = 100_000
ROUNDS = 30
BOUND = 0.250
SEARCH = "/v1/ci/acme/repositories/widgets/search/tests"
_BATCH = 10_000
# A pattern may have at most 16 `*`, a request at most 500 wildcards.
_NAMED = "*a" * 16 + "*b"
# Single letters between wildcards are in no index.
_MOST_EXPENSIVE = "*a" * 14 + "*b*"
# In none of the names.
_ENDS = "cdefghijklmnopqrstuvwxyzABCDEFG"


async def run(
    harness: Harness, *, tests: int = TESTS, rounds: int = ROUNDS, stores: Sequence[str] = STORES
) -> list[Finding]:
    found = []
    for store in stores:
        place = await harness.new_store(store)
        key = await _load(harness, place, tests)
        async with harness.serve(place) as running:
            connection = RawConnection(running.port)
            response = await connection.request(f"{SEARCH}?test_name=*", key)
            healthy = response.seconds
            for what, pattern, expected in (
                ("`*a` × 16 + `*b`", _NAMED, HTTPStatus.UNPROCESSABLE_ENTITY),
                (
                    "`*a` × 14 + `*b*`, the most expensive accepted pattern",
                    _MOST_EXPENSIVE,
                    HTTPStatus.OK,
                ),
            ):
                times, statuses = [], set()
                for number in range(rounds):
                    # Request each pattern once: a cached response costs nothing.
                    query = f"test_name={quote(pattern)}&per_page={number + 1}"
                    response = await connection.request(f"{SEARCH}?{query}", key)
                    times.append(response.seconds)
                    statuses.add(response.status)
                others = statuses - {expected}
                found.append(_judge(f"{what}, {store}", tests, times, healthy, expected, others))
            patterns = [_MOST_EXPENSIVE.replace("b", end) for end in _ENDS]
            query = "&".join(f"test_name={quote(pattern)}" for pattern in patterns)
            response = await connection.request(f"{SEARCH}?{query}", key)
            found.append(
                Finding(
                    f"{len(_ENDS)} such patterns in one request, {store}",
                    f"{response.status} after {milliseconds(response.seconds)}",
                    f"200 or 503 within {SLOW_READ_SECONDS:.0f} s, the service's own limit",
                    response.status in (HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE)
                    and response.seconds < SLOW_READ_SECONDS,
                )
            )
            connection.abort()
    return found


def _judge(
    what: str, tests: int, times: list[float], healthy: float, expected: int, others: set[int]
) -> Finding:
    most = percentile(times, 0.9)
    statuses = "/".join(f"{status:d}" for status in (expected, *sorted(others)))
    return Finding(
        what,
        f"{statuses}, median {milliseconds(median(times))}, p90 {milliseconds(most)}, slowest "
        f"{milliseconds(max(times))} over {tests:,} tests (a page without a filter: "
        f"{milliseconds(healthy)})",
        f"{expected:d}, p90 under {milliseconds(BOUND)}",
        most < BOUND and not others,
    )


async def _load(harness: Harness, place: Place, count: int) -> str:
    store = await open_store(place)
    name, run, now = RepositoryName("acme", "widgets"), make_run(), datetime.now(UTC)
    try:
        await store.ensure_repository(name)
        for first in range(0, count, _BATCH):
            # Names that match all of a pattern but its end, in many ways.
            numbers = range(first, min(count, first + _BATCH))
            batch = [(f"abab.{'a' * 40}.{number:06}", Conclusion.PASSED) for number in numbers]
            executions = make_executions(run, batch, now, repository=name)
            await store.write_results(name, {run: executions})
        await store.refresh_tests(now)
        return await Keys(harness, store).make("acme")
    finally:
        await store.close()
