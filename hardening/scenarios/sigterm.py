"""SIGTERM while clients use keep-alive connections: no request is cut off (connection draining)."""

from __future__ import annotations

import asyncio
import signal
import time
from dataclasses import dataclass, field
from http import HTTPStatus

from hardening.findings import Finding, percentile
from hardening.ground import Ground
from hardening.stock import Stock, prepared
from hardening.wire import UnansweredError, Wire

ROUNDS = 50
WORKERS = (1, 2)
CLIENTS = 16
OUT_WITHIN = 10.0
_BEFORE = 40


@dataclass
class Seen:
    answered: int = 0
    wrong: list[str] = field(default_factory=list)
    resets: int = 0
    closed: int = 0
    enough: asyncio.Event = field(default_factory=asyncio.Event)


async def run(ground: Ground, *, rounds: int = ROUNDS) -> list[Finding]:
    return [await _end_often(ground, rounds, workers) for workers in WORKERS]


async def _end_often(ground: Ground, rounds: int, workers: int) -> Finding:
    place = await ground.place("sqlite")
    (stock,), key = await prepared(ground, place, ["acme/widgets"])
    out, resets, closed, answered = [], 0, 0, 0
    wrong: list[str] = []
    statuses = set()
    for _ in range(rounds):
        async with ground.serve(place, log_level="info", workers=str(workers)) as running:
            seen = Seen()
            clients = [
                asyncio.create_task(_ask(running.port, key, stock, seen)) for _ in range(CLIENTS)
            ]
            await seen.enough.wait()
            running.process.send_signal(signal.SIGTERM)
            began = time.monotonic()
            statuses.add(await asyncio.to_thread(running.process.wait, 60))
            out.append(time.monotonic() - began)
            await asyncio.gather(*clients)
            resets, closed = resets + seen.resets, closed + seen.closed
            answered += seen.answered
            wrong += seen.wrong + running.mistakes()
    return Finding(
        f"SIGTERM under load over kept connections, workers: {workers}",
        f"{rounds} times, {answered:,} answers: {resets} requests reset, {closed} closed "
        f"without an answer, {len(wrong)} wrong; out after {percentile(out, 0.5):.2f} s, "
        f"at most {max(out):.2f} s",
        f"0, 0, 0; out within {OUT_WITHIN:.0f} s",
        not (resets or closed or wrong) and max(out) < OUT_WITHIN and statuses == {0},
        "; ".join(wrong[:2]),
    )


async def _ask(port: int, key: str, stock: Stock, seen: Seen) -> None:
    wire = Wire(port)
    targets = list(stock.targets().values())
    while True:
        for target in targets:
            try:
                await wire.open()
            except OSError:
                # The listener has closed, after the service announced it in order.
                seen.enough.set()
                return
            try:
                told = await wire.ask(target, key)
            except UnansweredError as error:
                seen.resets += error.reset
                seen.closed += not error.reset
                continue
            seen.answered += 1
            if told.status != HTTPStatus.OK:
                seen.wrong.append(f"{told.status}: {told.body[:100]!r}")
            if seen.answered >= _BEFORE * CLIENTS:
                seen.enough.set()
