"""Cost is linear in the input: four times as much takes four times as long."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Final

import orjson

from hardening.bodies import NDJSON, make_event, make_spans
from hardening.findings import Finding
from hardening.harness import STORES, Harness
from hardening.raw_http import TIMEOUT_SECONDS, NoResponseError, RawConnection
from hardening.seeding import SeededRepository, seed_new_store
from hardening.tenants import WATCHED, path_of
from indexing.models.keys import Scope
from indexing.timestamps import format_timestamp

MAX_GROWTH = 6.0
FACTOR: Final = 4
ROUNDS = 3
# The small sizes. A cluster needs more time for each item.
SIZES: Final[Mapping[str, Mapping[str, int]]] = {
    "sqlite": {"commits": 250, "lines": 2_500, "spans": 2_000, "parameters": 25, "unknown": 900},
    "elasticsearch": {
        "commits": 30,
        "lines": 3_000,
        "spans": 500,
        "parameters": 25,
        "unknown": 900,
    },
}
# The number of commits in one body, as from an exporter that sends its backlog.
_BODY: Final = 50
# How often such a request is repeated: one alone is too quick to measure.
_REQUESTS: Final = 40


@dataclass
class _Sender:
    """Sends a number of new items and returns the seconds that it took."""

    connection: RawConnection
    seeded: SeededRepository
    key: str = field(repr=False)
    now: datetime
    failures: list[str] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    async def commits(self, count: int) -> float:
        """Send spans of one run id, each with its own commit."""
        run_id, total = next(self._numbers), 0.0
        for first in range(0, count, _BODY):
            body = make_spans(
                first,
                min(_BODY, count - first),
                self.now,
                run_id=run_id,
                commit=f"c{run_id}-",
                own_commits=True,
            )
            total += await self._post("traces", "application/json", body)
        return total

    async def spans(self, count: int) -> float:
        """Send spans of one run and commit."""
        run_id = next(self._numbers)
        body = make_spans(0, count, self.now, run_id=run_id, commit=f"c{run_id}")
        return await self._post("traces", "application/json", body)

    async def lines(self, count: int) -> float:
        at = format_timestamp(self.now - timedelta(minutes=next(self._numbers)))
        about = {"received_at": at, "repository": str(self.seeded.name)}
        lines = [make_event(n, "action.rebase", {}) | about for n in range(count)]
        return await self._post("logs", NDJSON, b"\n".join(map(orjson.dumps, lines)))

    async def parameters(self, count: int) -> float:
        """Send names of tests that do not exist."""
        path = self.seeded.targets()["search"].partition("?")[0]
        return await self._get(
            lambda number: (
                path
                + "?"
                + "&".join(f"test_name=no-{number}-{n:03}.{'x' * 40}" for n in range(count))
            )
        )

    async def unknown(self, count: int) -> float:
        """Send unknown parameters."""
        path = path_of(self.seeded, "logs")
        return await self._get(lambda number: f"{path}?u{number}&{'a&' * count}")

    async def _get(self, target_of: Callable[[int], str]) -> float:
        return sum([await self._request(target_of(next(self._numbers))) for _ in range(_REQUESTS)])

    async def _post(self, to: str, kind: str, body: bytes) -> float:
        return await self._request(
            path_of(self.seeded, to), b"Content-Type: " + kind.encode(), method="POST", body=body
        )

    async def _request(
        self, target: str, *headers: bytes, method: str = "GET", body: bytes = b""
    ) -> float:
        try:
            response = await self.connection.request(
                target, self.key, *headers, method=method, body=body
            )
        except (NoResponseError, OSError, TimeoutError) as error:
            self.failures.append(f"{type(error).__name__} after at most {TIMEOUT_SECONDS:.0f} s")
            return TIMEOUT_SECONDS
        if (
            response.status != HTTPStatus.OK
            or b"rejected" in response.body
            or b'"reason"' in response.body
        ):
            self.failures.append(f"{response.status}: {response.body[:100]!r}")
        return response.seconds


async def run(
    harness: Harness,
    *,
    rounds: int = ROUNDS,
    stores: Sequence[str] = STORES,
    sizes: Mapping[str, Mapping[str, int]] = SIZES,
) -> list[Finding]:
    found = []
    for store in stores:
        place = await harness.new_store(store)
        (seeded,), key = await seed_new_store(harness, place, [WATCHED], scope=Scope.ADMIN)
        async with harness.serve(place, ingest="true", log_level="info") as running:
            now = datetime.now(UTC).replace(microsecond=0)
            sender = _Sender(RawConnection(running.port), seeded, key, now)
            ways: Mapping[str, Callable[[int], Awaitable[float]]] = {
                "commits": sender.commits,
                "lines": sender.lines,
                "spans": sender.spans,
                "parameters": sender.parameters,
                "unknown": sender.unknown,
            }
            for name, size in sizes[store].items():
                sender.failures.clear()
                found.append(
                    await measure(
                        f"{_NAMES[name]}, {store}", size, ways[name], rounds, sender.failures
                    )
                )
            sender.connection.abort()
    return found


_NAMES: Final = {
    "commits": "commits under one run id",
    "lines": "lines",
    "spans": "spans",
    "parameters": "names in a search",
    "unknown": "unknown parameters",
}


async def measure(
    what: str,
    size: int,
    send: Callable[[int], Awaitable[float]],
    rounds: int,
    failures: Sequence[str],
) -> Finding:
    """Measure both sizes in turn and take the best of each: other load only adds time."""
    # Warm up: the first request of a kind also pays for set-up.
    await send(min(size, 10))
    few, many = [], []
    for _ in range(rounds):
        few.append(await send(size))
        many.append(await send(FACTOR * size))
        if max(many) >= TIMEOUT_SECONDS:
            break
    growth = min(many) / min(few)
    return Finding(
        what,
        f"{size:,} in {min(few):.2f} s, {FACTOR * size:,} in {min(many):.2f} s: × {growth:.1f}",
        f"× {MAX_GROWTH:.0f} at most for {FACTOR} times as many",
        growth <= MAX_GROWTH and not failures,
        "; ".join(dict.fromkeys(failures[:3])),
    )
