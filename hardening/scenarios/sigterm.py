"""SIGTERM while clients use keep-alive connections: no request is cut off (connection draining)."""

from __future__ import annotations

import asyncio
import signal
import time
from dataclasses import dataclass, field
from http import HTTPStatus

from hardening.findings import Finding, percentile
from hardening.harness import Harness
from hardening.raw_http import NoResponseError, RawConnection
from hardening.seeding import SeededRepository, seed_new_store

ROUNDS = 50
WORKERS = (1, 2)
CLIENTS = 16
EXIT_SECONDS = 10.0
_BEFORE = 40


@dataclass
class Seen:
    answered: int = 0
    wrong: list[str] = field(default_factory=list)
    resets: int = 0
    closed: int = 0
    enough: asyncio.Event = field(default_factory=asyncio.Event)


async def run(harness: Harness, *, rounds: int = ROUNDS) -> list[Finding]:
    return [await _terminate_repeatedly(harness, rounds, workers) for workers in WORKERS]


async def _terminate_repeatedly(harness: Harness, rounds: int, workers: int) -> Finding:
    place = await harness.new_store("sqlite")
    (seeded,), key = await seed_new_store(harness, place, ["acme/widgets"])
    out, resets, closed, answered = [], 0, 0, 0
    wrong: list[str] = []
    statuses = set()
    for _ in range(rounds):
        async with harness.serve(place, log_level="info", workers=str(workers)) as running:
            seen = Seen()
            clients = [
                asyncio.create_task(_request(running.port, key, seeded, seen))
                for _ in range(CLIENTS)
            ]
            await seen.enough.wait()
            running.process.send_signal(signal.SIGTERM)
            began = time.monotonic()
            statuses.add(await asyncio.to_thread(running.process.wait, 60))
            out.append(time.monotonic() - began)
            await asyncio.gather(*clients)
            resets, closed = resets + seen.resets, closed + seen.closed
            answered += seen.answered
            wrong += seen.wrong + running.service_errors()
    return Finding(
        f"SIGTERM under load over keep-alive connections, workers: {workers}",
        f"{rounds} times, {answered:,} responses: {resets} requests reset, {closed} closed "
        f"without a response, {len(wrong)} wrong; exit after {percentile(out, 0.5):.2f} s, "
        f"at most {max(out):.2f} s",
        f"0, 0, 0; exit within {EXIT_SECONDS:.0f} s",
        not (resets or closed or wrong) and max(out) < EXIT_SECONDS and statuses == {0},
        "; ".join(wrong[:2]),
    )


async def _request(port: int, key: str, seeded: SeededRepository, seen: Seen) -> None:
    connection = RawConnection(port)
    targets = list(seeded.targets().values())
    while True:
        for target in targets:
            try:
                await connection.open()
            except OSError:
                # The listener has closed, after the service announced it in order.
                seen.enough.set()
                return
            try:
                response = await connection.request(target, key)
            except NoResponseError as error:
                seen.resets += error.reset
                seen.closed += not error.reset
                continue
            seen.answered += 1
            if response.status != HTTPStatus.OK:
                seen.wrong.append(f"{response.status}: {response.body[:100]!r}")
            if seen.answered >= _BEFORE * CLIENTS:
                seen.enough.set()
