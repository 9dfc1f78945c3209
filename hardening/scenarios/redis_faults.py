"""Redis killed and stopped under load: no request fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hardening.findings import Finding, milliseconds, percentile
from hardening.ground import Ground
from hardening.judging import Judge, Tally
from hardening.stock import prepared
from tests.servers.redis import Redis

TIMES = 20
CLIENTS = 8
_HARMED_SECONDS = 0.4


async def run(ground: Ground, *, times: int = TIMES) -> list[Finding]:
    place = await ground.place("sqlite")
    (stock,), key = await prepared(ground, place, ["acme/widgets"])
    found = []
    for what, harm, mend in (
        ("killed", Redis.kill, Redis.start),
        ("stopped", Redis.suspend, Redis.resume),
    ):
        with ground.redis() as redis:
            async with ground.serve(place, redis_url=redis.url, log_level="info") as running:
                judge = Judge(running.port, key)
                await judge.learn(list(stock.targets().values()))
                async with judge.under_load(CLIENTS):
                    await asyncio.sleep(1)
                healthy, judge.tally = judge.tally, Tally()
                await _harm(judge, redis, harm, mend, times)
        tally = judge.tally
        found.append(
            Finding(
                f"Redis {what} under load",
                f"{times} times, {tally.asked:,} requests: {tally.failed} failed, slowest "
                f"{milliseconds(tally.slowest)}, p99 "
                f"{milliseconds(percentile(tally.seconds, 0.99))} "
                f"(healthy {milliseconds(percentile(healthy.seconds, 0.99))})",
                "0 failed",
                tally.failed == 0 and not running.mistakes(),
                "; ".join(tally.wrong[:2]),
            )
        )
    return found


async def _harm(
    judge: Judge,
    redis: Redis,
    harm: Callable[[Redis], object],
    mend: Callable[[Redis], object],
    times: int,
) -> None:
    async with judge.under_load(CLIENTS):
        for _ in range(times):
            await asyncio.to_thread(harm, redis)
            await asyncio.sleep(_HARMED_SECONDS)
            await asyncio.to_thread(mend, redis)
            await asyncio.sleep(_HARMED_SECONDS)
