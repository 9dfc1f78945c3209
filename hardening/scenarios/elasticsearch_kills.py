"""Elasticsearch killed under load: cached reads are answered, all others get 503, none is wrong."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from http import HTTPStatus

from hardening.checking import ResponseChecker, Tally
from hardening.findings import Finding, median
from hardening.harness import Harness
from hardening.seeding import seed_new_store
from indexing.errors import StoreUnavailableError
from indexing.names import RepositoryName
from indexing.store import ElasticsearchPlace
from tests.whole_state import read_all

TIMES = 20
CLIENTS = 4
BOUND = 2.0
_DOWN_SECONDS = 1.5
# How long a node that was started again may take to its first answers.
_COLD_SECONDS = 120.0


async def run(harness: Harness, *, times: int = TIMES) -> list[Finding]:
    with harness.own_node() as node:
        place = ElasticsearchPlace((node.url,), "kills")
        (seeded,), key = await seed_new_store(harness, place, ["acme/widgets"])
        backs: list[float] = []
        async with harness.serve(place, log_level="info") as running:
            checker = ResponseChecker(running.port, key)
            targets = list(seeded.targets().values())
            await checker.learn(targets)
            async with checker.under_load(CLIENTS, pause=0.005):
                await asyncio.sleep(1)
            healthy, checker.tally = checker.tally, Tally()
            async with checker.under_load(CLIENTS, pause=0.02, variants=True) as tally:
                for _ in range(times):
                    await asyncio.to_thread(node.kill)
                    await asyncio.sleep(_DOWN_SECONDS)
                    await asyncio.to_thread(node.start)
                    await _wait_for_answers(place, seeded.name)
                    backs.append(await checker.until_right(targets))
        refused = tally.statuses[HTTPStatus.SERVICE_UNAVAILABLE]
        healthy_slowest = healthy.slowest
    return [
        Finding(
            "Elasticsearch killed under load",
            f"{times} times, {tally.requests:,} requests: {tally.right:,} right, {refused:,} × 503 "
            f"with Retry-After, {len(tally.wrong)} others, {tally.unanswered} without a response; "
            f"slowest {tally.slowest:.2f} s",
            "right or 503 with Retry-After, 0 wrong or incomplete pages",
            not tally.wrong and not tally.unanswered and not running.service_errors(),
            "; ".join([*tally.wrong[:2], *running.service_errors()[:1]]),
        ),
        Finding(
            "reads after the restart of Elasticsearch",
            f"recovered {median(backs):.2f} s after it answered a new client, at most "
            f"{max(backs):.2f} s (slowest response before: {healthy_slowest:.2f} s)",
            f"within {BOUND:.0f} s",
            max(backs) < BOUND,
        ),
    ]


async def _wait_for_answers(place: ElasticsearchPlace, repository: RepositoryName) -> None:
    """Wait until a client that knows of no failure gets every answer within the service's timeouts.

    On a busy machine, the first searches of a node take many seconds.
    """
    async with asyncio.timeout(_COLD_SECONDS):
        while True:
            with suppress(StoreUnavailableError):
                await read_all(place, [repository])
                return
