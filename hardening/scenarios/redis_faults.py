"""Redis killed and suspended under load: no request fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hardening.checking import ResponseChecker, Tally
from hardening.findings import Finding, milliseconds, percentile
from hardening.harness import Harness
from hardening.seeding import seed_new_store
from tests.servers.redis import Redis

TIMES = 20
CLIENTS = 8
_HARMED_SECONDS = 0.4


async def run(harness: Harness, *, times: int = TIMES) -> list[Finding]:
    place = await harness.new_store("sqlite")
    (seeded,), key = await seed_new_store(harness, place, ["acme/widgets"])
    found = []
    for what, harm, mend in (
        ("killed", Redis.kill, Redis.start),
        ("suspended", Redis.suspend, Redis.resume),
    ):
        with harness.redis() as redis:
            async with harness.serve(place, redis_url=redis.url, log_level="info") as running:
                checker = ResponseChecker(running.port, key)
                await checker.learn(list(seeded.targets().values()))
                async with checker.under_load(CLIENTS):
                    await asyncio.sleep(1)
                healthy, checker.tally = checker.tally, Tally()
                await _harm(checker, redis, harm, mend, times)
        tally = checker.tally
        found.append(
            Finding(
                f"Redis {what} under load",
                f"{times} times, {tally.requests:,} requests: {tally.failed} failed, slowest "
                f"{milliseconds(tally.slowest)}, p99 "
                f"{milliseconds(percentile(tally.seconds, 0.99))} "
                f"(healthy {milliseconds(percentile(healthy.seconds, 0.99))})",
                "0 failed",
                tally.failed == 0 and not running.service_errors(),
                "; ".join(tally.wrong[:2]),
            )
        )
    return found


async def _harm(
    checker: ResponseChecker,
    redis: Redis,
    harm: Callable[[Redis], object],
    mend: Callable[[Redis], object],
    times: int,
) -> None:
    async with checker.under_load(CLIENTS):
        for _ in range(times):
            await asyncio.to_thread(harm, redis)
            await asyncio.sleep(_HARMED_SECONDS)
            await asyncio.to_thread(mend, redis)
            await asyncio.sleep(_HARMED_SECONDS)
