"""A thousand slow clients: the others hardly notice."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from hardening.findings import Finding, milliseconds, percentile
from hardening.ground import ROOT, Ground
from hardening.judging import Judge, Tally
from hardening.stock import Keys, Stock, prepared
from indexing.models.quarantines import QuarantineRequest
from indexing.store import open_store
from tests.places import Place

SLOW = 1_000
CLIENTS = 4
SECONDS = 6.0
ROUNDS = 3
PAUSE = 0.005
FACTOR = 2.0
LARGE = 200


async def run(
    ground: Ground, *, slow: int = SLOW, seconds: float = SECONDS, rounds: int = ROUNDS
) -> list[Finding]:
    place = await ground.place("sqlite")
    (stock, large), key = await prepared(ground, place, ["acme/widgets", "umbrella/large"])
    slow_key = await _enlarge(ground, place, large)
    alone: list[float] = []
    beside: list[float] = []
    failed = 0
    wrong: list[str] = []
    async with ground.serve(place, log_level="info") as running:
        judge = Judge(running.port, key)
        await judge.learn(list(stock.targets().values()))
        # In turn, so that other load on the machine hits both.
        for _ in range(rounds):
            alone += await _measure(judge, seconds)
            failed += judge.tally.failed
            target = large.targets()["quarantines"]
            async with _slow_clients(running.port, slow, slow_key, target):
                beside += await _measure(judge, seconds)
            failed += judge.tally.failed
            wrong += judge.tally.wrong
            wrong += [f"{judge.tally.statuses}"] * bool(judge.tally.failed)
    before, during = percentile(alone, 0.99), percentile(beside, 0.99)
    return [
        Finding(
            f"{slow:,} slow clients",
            f"p99 of the others {milliseconds(during)}, alone {milliseconds(before)}: "
            f"× {during / before:.2f}; {failed} of {len(alone) + len(beside):,} failed",
            f"× {FACTOR:.0f} at most, 0 failed",
            during <= FACTOR * before and failed == 0,
            "; ".join(wrong[:3]),
        )
    ]


async def _enlarge(ground: Ground, place: Place, stock: Stock) -> str:
    """Create a list larger than socket buffers; return another owner's key that reads it."""
    store = await open_store(place)
    try:
        for number in range(LARGE):
            asked = QuarantineRequest(f"large.{number}", "x" * 4_000)
            await store.add_quarantine(stock.name, asked, datetime.now(UTC))
        return await Keys(ground, store).make(stock.name.owner)
    finally:
        await store.close()


async def _measure(judge: Judge, seconds: float) -> list[float]:
    judge.tally = Tally()
    async with judge.under_load(CLIENTS, pause=PAUSE) as tally:
        await asyncio.sleep(seconds)
    return tally.seconds


@asynccontextmanager
async def _slow_clients(port: int, count: int, key: str, target: str) -> AsyncIterator[None]:
    """Run them in a separate process, so that their cost is not the watcher's."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "hardening.slowness",
        str(port),
        str(count),
        target,
        env={**os.environ, "KEY": key, "PYTHONPATH": str(ROOT)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("both were asked for")
    try:
        await process.stdout.readline()
        yield
    finally:
        process.stdin.close()
        await process.wait()
