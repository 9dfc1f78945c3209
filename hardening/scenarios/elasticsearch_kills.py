"""Elasticsearch killed under load: cached reads are answered, all others get 503, none is wrong."""

from __future__ import annotations

import asyncio
import time
from http import HTTPStatus

from hardening.findings import Finding, median
from hardening.ground import Ground
from hardening.judging import Judge, Tally
from hardening.stock import prepared
from indexing.store import ElasticsearchPlace

TIMES = 20
CLIENTS = 4
BOUND = 2.0
_DOWN_SECONDS = 1.5


async def run(ground: Ground, *, times: int = TIMES) -> list[Finding]:
    with ground.own_node() as node:
        place = ElasticsearchPlace((node.url,), "kills")
        (stock,), key = await prepared(ground, place, ["acme/widgets"])
        backs: list[float] = []
        async with ground.serve(place, log_level="info") as running:
            judge = Judge(running.port, key)
            targets = list(stock.targets().values())
            await judge.learn(targets)
            async with judge.under_load(CLIENTS, pause=0.005):
                await asyncio.sleep(1)
            healthy, judge.tally = judge.tally, Tally()
            async with judge.under_load(CLIENTS, pause=0.02, variants=True) as tally:
                for _ in range(times):
                    await asyncio.to_thread(node.kill)
                    await asyncio.sleep(_DOWN_SECONDS)
                    await asyncio.to_thread(node.start)
                    backs.append(await _back(judge, targets))
        refused = tally.statuses[HTTPStatus.SERVICE_UNAVAILABLE]
        healthy_slowest = healthy.slowest
    return [
        Finding(
            "Elasticsearch killed under load",
            f"{times} times, {tally.asked:,} requests: {tally.right:,} right, {refused:,} × 503 "
            f"with Retry-After, {len(tally.wrong)} others, {tally.unanswered} without an answer; "
            f"slowest {tally.slowest:.2f} s",
            "right or 503 with Retry-After, 0 wrong or short pages",
            not tally.wrong and not tally.unanswered and not running.mistakes(),
            "; ".join([*tally.wrong[:2], *running.mistakes()[:1]]),
        ),
        Finding(
            "reads after the return of Elasticsearch",
            f"all right {median(backs):.2f} s after it was ready, at most {max(backs):.2f} s "
            f"(healthy, the slowest answer took {healthy_slowest:.2f} s)",
            f"within {BOUND:.0f} s",
            max(backs) < BOUND,
        ),
    ]


async def _back(judge: Judge, targets: list[str]) -> float:
    began = time.monotonic()
    await judge.until_right(targets)
    return time.monotonic() - began
