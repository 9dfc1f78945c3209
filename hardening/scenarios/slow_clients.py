"""A thousand slow clients: the others hardly notice."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from hardening.checking import ResponseChecker, Tally
from hardening.findings import Finding, milliseconds, percentile
from hardening.harness import ROOT, Harness
from hardening.seeding import Keys, SeededRepository, seed_new_store
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
    harness: Harness, *, slow: int = SLOW, seconds: float = SECONDS, rounds: int = ROUNDS
) -> list[Finding]:
    place = await harness.new_store("sqlite")
    (seeded, large), key = await seed_new_store(harness, place, ["acme/widgets", "umbrella/large"])
    slow_key = await _enlarge(harness, place, large)
    alone: list[float] = []
    beside: list[float] = []
    failed = 0
    wrong: list[str] = []
    async with harness.serve(place, log_level="info") as running:
        checker = ResponseChecker(running.port, key)
        await checker.learn(list(seeded.targets().values()))
        # In turn, so that other load on the machine hits both.
        for _ in range(rounds):
            alone += await _measure(checker, seconds)
            failed += checker.tally.failed
            target = large.targets()["quarantines"]
            async with _slow_clients(running.port, slow, slow_key, target):
                beside += await _measure(checker, seconds)
            failed += checker.tally.failed
            wrong += checker.tally.wrong
            wrong += [f"{checker.tally.statuses}"] * bool(checker.tally.failed)
    before, during = percentile(alone, 0.99), percentile(beside, 0.99)
    return [
        Finding(
            f"{slow:,} slow clients",
            f"p99 of the other clients {milliseconds(during)}, without slow clients "
            f"{milliseconds(before)}: "
            f"× {during / before:.2f}; {failed} of {len(alone) + len(beside):,} failed",
            f"× {FACTOR:.0f} at most, 0 failed",
            during <= FACTOR * before and failed == 0,
            "; ".join(wrong[:3]),
        )
    ]


async def _enlarge(harness: Harness, place: Place, seeded: SeededRepository) -> str:
    """Create a list larger than socket buffers; return another owner's key that reads it."""
    store = await open_store(place)
    try:
        for number in range(LARGE):
            request = QuarantineRequest(f"large.{number}", "x" * 4_000)
            await store.add_quarantine(seeded.name, request, datetime.now(UTC))
        return await Keys(harness, store).make(seeded.name.owner)
    finally:
        await store.close()


async def _measure(checker: ResponseChecker, seconds: float) -> list[float]:
    checker.tally = Tally()
    async with checker.under_load(CLIENTS, pause=PAUSE) as tally:
        await asyncio.sleep(seconds)
    return tally.seconds


@asynccontextmanager
async def _slow_clients(port: int, count: int, key: str, target: str) -> AsyncIterator[None]:
    """Run them in a separate process, so that their cost is not the watcher's."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "hardening.slow_clients",
        str(port),
        str(count),
        target,
        env={**os.environ, "KEY": key, "PYTHONPATH": str(ROOT)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("both pipes were requested")
    try:
        await process.stdout.readline()
        yield
    finally:
        process.stdin.close()
        await process.wait()
