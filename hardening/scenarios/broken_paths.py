"""The connection to Redis or Elasticsearch, broken in every way that a proxy can."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

from hardening.checking import ResponseChecker, Tally
from hardening.findings import Finding, percentile
from hardening.harness import Harness
from hardening.seeding import seed_new_store
from indexing.store import ElasticsearchPlace
from tests.servers.proxy import (
    Behaviour,
    Cut,
    Delayed,
    Down,
    Passing,
    Proxy,
    Resetting,
    Silent,
    Trickling,
)

BOUND = 2.0
SECONDS = 5.0
CLIENTS = 4
FAULTS: dict[str, Behaviour] = {
    "delay": Delayed(5.0),
    "short delay": Delayed(0.6),
    "connection refused": Down(),
    "one byte at a time": Trickling(0.02),
    "connection reset": Resetting(),
    "truncated response": Cut(),
    "no response": Silent(),
}


async def run(
    harness: Harness,
    *,
    seconds: float = SECONDS,
    before: Sequence[str] = ("redis", "elasticsearch"),
) -> list[Finding]:
    found = []
    if "redis" in before:
        place = await harness.new_store("sqlite")
        with harness.redis() as redis:
            async with Proxy(redis.port.number) as proxy:
                (seeded,), key = await seed_new_store(harness, place, ["acme/widgets"])
                url = f"redis://{proxy.address}/0"
                async with harness.serve(place, redis_url=url, log_level="info") as running:
                    checker = ResponseChecker(running.port, key)
                    await checker.learn(list(seeded.targets().values()))
                    found += await _break(checker, proxy, "Redis", seconds)
    if "elasticsearch" in before:
        place = await harness.new_store("elasticsearch")
        node = harness.node
        if node is None or not isinstance(place, ElasticsearchPlace):
            raise TypeError("the store is not in the node")
        async with Proxy(node.http.number) as proxy:
            (seeded,), key = await seed_new_store(harness, place, ["acme/widgets"])
            through = ElasticsearchPlace((f"http://{proxy.address}",), place.prefix)
            async with harness.serve(through, log_level="info") as running:
                checker = ResponseChecker(running.port, key)
                await checker.learn(list(seeded.targets().values()))
                found += await _break(checker, proxy, "Elasticsearch", seconds)
    return found


async def _break(
    checker: ResponseChecker, proxy: Proxy, what: str, seconds: float
) -> list[Finding]:
    found = []
    for name, fault in {"no fault": Passing(), **FAULTS}.items():
        checker.tally = Tally()
        await proxy.turn(fault)
        # Send new requests, so that no cache answers instead of Elasticsearch.
        async with checker.under_load(CLIENTS, pause=0.01, variants=what != "Redis"):
            await asyncio.sleep(seconds)
        tally = checker.tally
        await proxy.turn(Passing())
        back = await checker.until_right(list(checker.right))
        refused = tally.statuses[HTTPStatus.SERVICE_UNAVAILABLE]
        found.append(
            Finding(
                f"connection to {what}: {name}",
                f"{tally.requests:,} requests: {tally.right:,} right, {refused:,} × 503, "
                f"{len(tally.wrong)} others, {tally.unanswered} without a response; slowest "
                f"{tally.slowest:.2f} s, median {percentile(tally.seconds, 0.5):.3f} s, recovered "
                f"after {back:.2f} s",
                f"right or 503, and recovered, within {BOUND:.0f} s",
                not tally.wrong and not tally.unanswered and tally.slowest < BOUND and back < BOUND,
                "; ".join(tally.wrong[:2]),
            )
        )
    return found
