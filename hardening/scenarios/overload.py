"""Five times as much as can be answered: what can be is answered, and the rest is told at once."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import count

from hardening.findings import Finding, median, milliseconds, percentile
from hardening.ground import Ground, Running
from hardening.stock import Keys, Stock, prepared
from hardening.wire import UnansweredError, Wire
from indexing.store import open_store
from tests.builders import load_names

SECONDS = 60.0
FACTOR = 5
LEAST_GOODPUT = 0.8
REFUSED_WITHIN = 0.050
MOST_GROWTH = 1.1
TENANTS = 8
TESTS = 5_000
# At least as many in flight as it takes for the peak; the best of them is the peak.
_PEAKS = (8, 16, 32)
_PEAK_SECONDS = 4.0
_TICK = 0.01
# More than are ever answered at once: who finds none free is counted as one more that is not.
_CONNECTIONS = 2_000


@dataclass
class Load:
    """Requests of several credentials, none of which was asked before."""

    port: int
    keys: Sequence[str] = field(repr=False)
    stock: Stock
    statuses: Counter[int] = field(default_factory=Counter)
    unanswered: int = 0
    refusals: list[float] = field(default_factory=list)
    answers: list[float] = field(default_factory=list)
    numbers: count[int] = field(default_factory=count)

    async def ask(self, wire: Wire) -> None:
        number = next(self.numbers)
        path = self.stock.targets()["search"].partition("?")[0]
        # A pattern of its own that no index narrows: every name has to be looked at, so that it is
        # answering that is overloaded, not the reading of requests.
        digits = "*".join(str(number))
        target = f"{path}?test_name=*{digits}*s*e*_*9&per_page=20"
        try:
            told = await wire.ask(target, self.keys[number % len(self.keys)])
        except (UnansweredError, OSError, TimeoutError):
            self.unanswered += 1
            return
        self.statuses[told.status] += 1
        if told.status == HTTPStatus.SERVICE_UNAVAILABLE:
            self.refusals.append(told.seconds)
        else:
            self.answers.append(told.seconds)


async def run(ground: Ground, *, seconds: float = SECONDS) -> list[Finding]:
    place = await ground.place("sqlite")
    (stock,), _ = await prepared(ground, place, ["acme/widgets"])
    opened = await open_store(place)
    try:
        # What takes a while to look through: next to it, to send a request costs little.
        names = [f"{'suite.' * 5}case_{number:05}" for number in range(TESTS)]
        await load_names(opened, names, repository=stock.name, at=datetime.now(UTC))
        keys = [await Keys(ground, opened).make("acme") for _ in range(TENANTS)]
    finally:
        await opened.close()
    async with ground.serve(place, log_level="info") as running:
        peak = max([await _peak(Load(running.port, keys, stock), many) for many in _PEAKS])
        load = Load(running.port, keys, stock)
        memory, offered = await _overload(load, running, peak * FACTOR, seconds)
        # What else the machine does may have changed meanwhile.
        after = max([await _peak(Load(running.port, keys, stock), many) for many in _PEAKS])
    goodput = load.statuses[HTTPStatus.OK] / seconds
    fair = (peak + after) / 2
    third = max(1, len(memory) // 3)
    growth = median(memory[-third:]) / median(memory[third : 2 * third])
    strange = {code for code in load.statuses if code not in (200, 503)}
    return [
        Finding(
            f"{FACTOR} times overload for {seconds:.0f} s: goodput",
            f"{goodput:.0f} of {peak:.0f} (before) and {after:.0f} (after) a second at the peak: "
            f"{goodput / fair:.0%}, at {offered / seconds:.0f} asked a second",
            f"{LEAST_GOODPUT:.0%} of the peak",
            goodput >= LEAST_GOODPUT * fair and not strange,
            f"answers: {dict(load.statuses)}, {load.unanswered} without one",
        ),
        Finding(
            f"{FACTOR} times overload: refusals",
            f"{len(load.refusals):,}: median {milliseconds(median(load.refusals))}, p99 "
            f"{milliseconds(percentile(load.refusals, 0.99))} (answers: median "
            f"{milliseconds(median(load.answers))})",
            f"median under {milliseconds(REFUSED_WITHIN)}",
            median(load.refusals) < REFUSED_WITHIN,
        ),
        Finding(
            f"{FACTOR} times overload: memory",
            f"× {growth:.3f} from the second third of the time to the last, "
            f"{max(memory) / 2**20:.0f} MiB at most",
            f"× {MOST_GROWTH} at most",
            growth <= MOST_GROWTH,
        ),
    ]


async def _peak(load: Load, many: int) -> float:
    over = asyncio.Event()

    async def go_on() -> None:
        wire = Wire(load.port)
        while not over.is_set():
            await load.ask(wire)
        wire.abort()

    async with asyncio.TaskGroup() as group:
        for _ in range(many):
            group.create_task(go_on())
        await asyncio.sleep(_PEAK_SECONDS)
        got = load.statuses[HTTPStatus.OK] / _PEAK_SECONDS
        over.set()
    return got


async def _overload(
    load: Load, running: Running, rate: float, seconds: float
) -> tuple[list[int], int]:
    """Ask at that rate, whatever comes back; gives the memory by the second, and how many."""
    free = [Wire(load.port) for _ in range(_CONNECTIONS)]
    tasks: set[asyncio.Task[None]] = set()
    memory: list[int] = []
    asked = 0

    async def one(wire: Wire) -> None:
        await load.ask(wire)
        free.append(wire)

    began = time.monotonic()
    while (passed := time.monotonic() - began) < seconds:
        while asked < passed * rate:
            asked += 1
            if not free:
                load.unanswered += 1
                continue
            task = asyncio.create_task(one(free.pop()))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        if len(memory) < passed:
            memory.append(running.memory())
        await asyncio.sleep(_TICK)
    await asyncio.gather(*tasks)
    for wire in free:
        wire.abort()
    return memory, asked
