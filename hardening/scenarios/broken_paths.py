"""The connection to Redis or Elasticsearch, broken in every way that a proxy can."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

from hardening.findings import Finding, percentile
from hardening.ground import Ground
from hardening.judging import Judge, Tally
from hardening.stock import prepared
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
    "a little delay": Delayed(0.6),
    "down": Down(),
    "trickle": Trickling(0.02),
    "reset": Resetting(),
    "cut-off": Cut(),
    "silence": Silent(),
}


async def run(
    ground: Ground,
    *,
    seconds: float = SECONDS,
    before: Sequence[str] = ("redis", "elasticsearch"),
) -> list[Finding]:
    found = []
    if "redis" in before:
        place = await ground.place("sqlite")
        with ground.redis() as redis:
            async with Proxy(redis.port.number) as proxy:
                (stock,), key = await prepared(ground, place, ["acme/widgets"])
                url = f"redis://{proxy.address}/0"
                async with ground.serve(place, redis_url=url, log_level="info") as running:
                    judge = Judge(running.port, key)
                    await judge.learn(list(stock.targets().values()))
                    found += await _break(judge, proxy, "Redis", seconds)
    if "elasticsearch" in before:
        place = await ground.place("elasticsearch")
        node = ground.node
        if node is None or not isinstance(place, ElasticsearchPlace):
            raise TypeError("the place is not in the node")
        async with Proxy(node.http.number) as proxy:
            (stock,), key = await prepared(ground, place, ["acme/widgets"])
            through = ElasticsearchPlace((f"http://{proxy.address}",), place.prefix)
            async with ground.serve(through, log_level="info") as running:
                judge = Judge(running.port, key)
                await judge.learn(list(stock.targets().values()))
                found += await _break(judge, proxy, "Elasticsearch", seconds)
    return found


async def _break(judge: Judge, proxy: Proxy, what: str, seconds: float) -> list[Finding]:
    found = []
    for name, fault in {"nothing": Passing(), **FAULTS}.items():
        judge.tally = Tally()
        await proxy.turn(fault)
        # Send new requests, so that no cache answers instead of Elasticsearch.
        async with judge.under_load(CLIENTS, pause=0.01, variants=what != "Redis"):
            await asyncio.sleep(seconds)
        tally = judge.tally
        await proxy.turn(Passing())
        back = await judge.until_right(list(judge.right))
        refused = tally.statuses[HTTPStatus.SERVICE_UNAVAILABLE]
        found.append(
            Finding(
                f"{name} between the service and {what}",
                f"{tally.asked:,} requests: {tally.right:,} right, {refused:,} × 503, "
                f"{len(tally.wrong)} others, {tally.unanswered} without an answer; slowest "
                f"{tally.slowest:.2f} s, median {percentile(tally.seconds, 0.5):.3f} s, all right "
                f"{back:.2f} s afterwards",
                f"right or 503 within {BOUND:.0f} s",
                not tally.wrong and not tally.unanswered and tally.slowest < BOUND,
                "; ".join(tally.wrong[:2]),
            )
        )
    return found
